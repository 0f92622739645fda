"""`python -m launch.jobs.ray_cluster JOB_FOLDER`: a Ray cluster over the nodes of a Slurm job, and a stage on it.

One task on each node. The first one starts Ray's head and then the stage; the others join the head, and stay until the
stage has ended. A node that is lost takes its part of the work with it, which Ray gives to the others; only the loss of
the first node ends the job, and Slurm then starts it anew.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from launch.jobs.record import RAY_ADDRESS, Job, exit_code_file, read_job
from launch.jobs.task import port_of, record_start
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError, exit_code_of
from panendofm.runtime.files import write_text

JOIN_SECONDS = 180.0


class RayStartError(Exception):
    """Ray's head could not be reached."""


def main(folder: Path) -> int:
    try:
        return run_node(read_job(folder))
    except RayStartError as error:
        # Not the user's doing, so not the user's exit code: the next go, at another port, may succeed.
        warn(str(error))
        return 1


def run_node(job: Job) -> int:
    restart = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
    address = f"{os.environ['SLURM_LAUNCH_NODE_IPADDR']}:{port_of(int(os.environ['SLURM_JOB_ID']), restart)}"
    ended = exit_code_file(job)
    token = ended.with_suffix(".token")
    if os.environ["SLURM_PROCID"] != "0":
        _use_token(token)
        return stay_joined(job, address, ended)
    _make_token(token)
    _use_token(token)
    record_start(job)
    code = 1
    try:
        code = run_on_head(job, address)
    finally:
        token.unlink(missing_ok=True)
        write_text(ended, f"{code}\n")
    if code == 0:  # else its logs may be wanted
        shutil.rmtree(_scratch(), ignore_errors=True)
    return code


def _make_token(path: Path) -> None:
    """A secret of this job's own cluster: nodes are shared, and without one any user of them could run code on it.

    It also keeps the job apart from the token that Ray stores in the home folder for the user's local clusters.
    """
    hidden = path.with_name(f".{path.name}")
    hidden.unlink(missing_ok=True)
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(secrets.token_hex(32))
    hidden.replace(path)


def _use_token(path: Path) -> None:
    """For this process and all that it starts, as soon as the first node has written the token."""
    deadline = time.monotonic() + JOIN_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise UserError(f"the first node did not write {path} in {JOIN_SECONDS:.0f} s; is its folder shared?")
        time.sleep(0.3)
    os.environ.update({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": path.read_text()})


def run_on_head(job: Job, address: str) -> int:
    host, port = address.rsplit(":", 1)
    where = [f"--node-ip-address={host}", f"--port={port}", f"--temp-dir={_scratch()}"]
    head = _ray_start(job, ["--head", *where])
    try:
        _wait_for_port(host, int(port), head)
        _wait_for_nodes(address, job.nodes)
        # One process of several tasks: the stage must not think that it is a rank.
        hidden = ("SLURM_PROCID", "RANK")
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        words = [word.replace(RAY_ADDRESS, address) for word in job.words]
        stage = subprocess.Popen([sys.executable, "-m", *words], env=environment | {"RAY_ADDRESS": address})

        def pass_on(number: int, frame: FrameType | None) -> None:
            stage.send_signal(number)

        for number in (signal.SIGTERM, signal.SIGUSR2):
            signal.signal(number, pass_on)
        code = stage.wait()
        return code if code >= 0 else 128 - code
    finally:
        _end(head)


def _wait_for_nodes(address: str, wanted: int) -> None:
    """A stage may count the cluster's cores when it starts, so it starts when all have joined."""
    import ray  # reads its settings when it is imported, so not before the token is there

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        deadline = time.monotonic() + JOIN_SECONDS
        while (joined := _alive_nodes()) < wanted and time.monotonic() < deadline:
            time.sleep(0.5)
    finally:
        ray.shutdown()
    if joined < wanted:
        warn(f"only {joined} of {wanted} nodes joined Ray in {JOIN_SECONDS:.0f} s; going on with them")
    say(f"Ray is up at {address} on {joined} nodes")


def _alive_nodes() -> int:
    import ray

    return sum(bool(node["Alive"]) for node in ray.nodes())  # type: ignore[no-untyped-call]


def _scratch() -> Path:
    """Ray's sockets and logs on each node. /tmp/ray may be another user's, and a socket's name must stay short."""
    return Path(f"/tmp/ray_{os.getuid()}_{os.environ['SLURM_JOB_ID']}")


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
    if ended.exists() and ended.read_text().strip() == "0":
        shutil.rmtree(_scratch(), ignore_errors=True)
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
    how = f"did not come up in {JOIN_SECONDS:.0f} s" if head is None or head.poll() is None else "ended at once"
    raise RayStartError(f"Ray's head at {host}:{port} {how}; its logs are in {_scratch()} on the first node.")


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
    sys.exit(exit_code_of(lambda: main(Path(sys.argv[1]))))
