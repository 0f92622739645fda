"""A real Slurm on this machine: how the tests start it, ask it, and do it harm."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Slurm:
    root: Path
    port: int
    accounting: bool = False

    def script(self, *words: str) -> None:
        environment = os.environ | {
            "ROOT": str(self.root),
            "PORT": str(self.port),
            "ACCOUNTING": str(int(self.accounting)),
        }
        subprocess.run([HERE / "slurm_cluster.sh", *words], env=environment, check=True, timeout=60)

    def state(self, job_id: str) -> str:
        return self.ask("squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T").strip()

    def ask(self, *words: str) -> str:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout

    def stop_controller(self) -> None:
        """As for maintenance: it stores what it knows first."""
        number = int((self.root / "slurmctld.pid").read_text())
        os.kill(number, signal.SIGTERM)
        wait_for(lambda: _is_gone(number), 20, "slurmctld is gone")

    def kill_slurmd(self, node: str) -> None:
        os.kill(int((self.root / f"slurmd.{node}.pid").read_text()), signal.SIGKILL)

    def kill_node(self, node: str, job_id: str) -> None:
        """As when the power goes: the daemon, the step's own daemon, and all that the job runs there, at once."""
        self.kill_slurmd(node)
        tasks = processes_of(job_id, node)
        steps = {parent for parent in map(_parent_of, tasks) if _name_of(parent) == "slurmstepd"}
        for number in [*steps, *tasks]:
            os.kill(number, signal.SIGKILL)

    def start_node(self, node: str) -> None:
        self.script("node", node)
        wait_for(lambda: node in self.ask("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split(), 60, f"{node} is back")

    def cancel_all(self) -> None:
        """Also waits until the jobs' processes are gone, so that the next test finds free nodes."""
        subprocess.run(["scancel", "-u", "root"], check=False, timeout=60)
        wait_for(lambda: not self.ask("squeue", "-h").strip(), 120, "the cluster is empty")


def processes_of(job_id: str, node: str = "") -> list[int]:
    """Numbers of a job's processes (on one node), by their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if f"SLURM_JOB_ID={job_id}".encode() in variables and (
            not node or f"SLURMD_NODENAME={node}".encode() in variables
        ):
            found.append(int(folder.name))
    return found


def command_of(number: int) -> bytes:
    """Its words, each followed by a zero; nothing when it has ended."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def _is_gone(number: int) -> bool:
    """Or waits to be buried, where nobody does that."""
    status = Path(f"/proc/{number}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def _parent_of(number: int) -> int:
    return int(Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])


def _name_of(number: int) -> str:
    return Path(f"/proc/{number}/comm").read_text().strip()


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"after {seconds:.0f} s still not: {what}")
        time.sleep(0.2)


def free_ports(count: int) -> int:
    """The first of `count` ports in a row that nobody listens on."""
    for first in range(26810, 32000, count):
        try:
            for port in range(first, first + count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
    raise RuntimeError("no free ports")
