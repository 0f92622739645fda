"""`python -m launch.ray_cluster JOB_FOLDER`: a Ray cluster over the nodes of a Slurm job, and a stage on it.

One task on each node. The first one starts Ray's head and then the stage; the others join the head, and stay until the
stage has ended. A node that is lost takes its part of the work with it, which Ray gives to the others; only the loss of
the first node ends the job, and Slurm then starts it anew.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from launch.jobs import Job, read_job
from launch.task import port_of, record_start
from runtime.console import say
from runtime.errors import UserError
from runtime.files import write_text

JOIN_SECONDS = 180.0


def exit_code_file(job: Job, restart: int) -> Path:
    """Where the first node notes the stage's exit code; the others wait for it, and so does the batch script."""
    return job.folder / f"ray_{restart}.exit"


def main(folder: Path) -> int:
    job = read_job(folder)
    restart = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    address = f"{os.environ['SLURM_LAUNCH_NODE_IPADDR']}:{port_of(int(os.environ['SLURM_JOB_ID']), restart)}"
    if os.environ["SLURM_PROCID"] != "0":
        return stay_joined(job, address, exit_code_file(job, restart))
    exit_code_file(job, restart).unlink(missing_ok=True)
    record_start(job)
    code = run_on_head(job, address)
    write_text(exit_code_file(job, restart), f"{code}\n")
    return code


def run_on_head(job: Job, address: str) -> int:
    host, port = address.rsplit(":", 1)
    # Nodes are shared, /tmp/ray may be another user's; socket names must stay short.
    temporary = f"/tmp/ray_{os.getuid()}_{os.environ['SLURM_JOB_ID']}"
    head = _ray_start(job, ["--head", f"--node-ip-address={host}", f"--port={port}", f"--temp-dir={temporary}"])
    try:
        _wait_for_port(host, int(port), head)
        say(f"Ray's head is up at {address}; {job.nodes} nodes are asked to join")
        # One process of several tasks: the stage must not think that it is a rank.
        hidden = ("SLURM_PROCID", "RANK")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        words = [word.replace("{ray_address}", address) for word in job.words]
        stage = subprocess.Popen([sys.executable, "-m", *words], env=environment | {"RAY_ADDRESS": address})

        def pass_on(number: int, frame: FrameType | None) -> None:
            stage.send_signal(number)

        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, pass_on)
        code = stage.wait()
        return code if code >= 0 else 128 - code
    finally:
        _end(head)


def stay_joined(job: Job, address: str, ended: Path) -> int:
    host, port = address.rsplit(":", 1)
    _wait_for_port(host, int(port), None)
    node = _ray_start(job, [f"--address={address}"])
    for number in (signal.SIGTERM, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # it is the stage that decides; this node ends with it
    try:
        while not ended.exists() and node.poll() is None:
            time.sleep(0.5)
    finally:
        _end(node)
    return 0


def _ray_start(job: Job, words: list[str]) -> subprocess.Popen[bytes]:
    # Random ports for Ray's workers: a fixed range would collide where two Ray nodes share a machine.
    common = ["--block", f"--num-cpus={job.cpus_per_task}", "--min-worker-port=0", "--max-worker-port=0",
              "--include-dashboard=false", "--disable-usage-stats"]  # fmt: skip
    if "--head" not in words:
        common.remove("--include-dashboard=false")
    return subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", *words, *common],
        stdout=subprocess.DEVNULL,
        process_group=0,
    )


def _wait_for_port(host: str, port: int, head: subprocess.Popen[bytes] | None) -> None:
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline and (head is None or head.poll() is None):
        try:
            with socket.create_connection((host, port), timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise UserError(f"Ray's head at {host}:{port} did not come up in {JOIN_SECONDS:.0f} s; its logs are in /tmp/ray_*.")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End Ray's processes of this node, and no others: `ray stop` would take those of other jobs too."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
