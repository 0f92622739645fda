"""Slurm's commands, and its errors in a sentence."""

from __future__ import annotations

import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from panendofm.runtime.errors import UserError

# Slurm's states of a job that is over; whatever else it says of a job, that job may still run.
OVER = (
    "COMPLETED",
    "FAILED",
    "CANCELLED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "OUT_OF_MEMORY",
    "BOOT_FAIL",
    "DEADLINE",
    "REVOKED",
)
_TRIES, _PAUSE_SECONDS, _COMMAND_SECONDS = 4, 3.0, 120.0


class Patience(NamedTuple):
    """How often the controller is asked, and how long each time may take."""

    tries: int
    seconds: float


PATIENT = Patience(_TRIES, _COMMAND_SECONDS)
# Somebody who looks on does not wait for a controller that is away: the jobs' own notes must do.
GLANCE = Patience(1, 8.0)
_PASSING_TROUBLE = ("Unable to contact", "timed out", "try again", "Zero Bytes", "Connection refused")
_PROGRAMS = ("sbatch", "srun", "squeue", "scontrol")
_FIELDS = ("JobID", "State", "Reason", "RestartCnt", "NodeList", "TimeUsed", "TimeLeft")

# Slurm's words for a refusal, and what to do about it.
_ADVICE = {
    "Invalid partition": "the partition does not exist; choose one that 'sinfo' lists (key 'partition')",
    "Invalid account": "the account is not yours to use here; see 'sacctmgr show associations' (key 'account')",
    "Invalid qos": "the quality of service does not exist; see 'sacctmgr show qos' (key 'qos')",
    "Memory specification": "no node has that much memory; lower 'memory_gb' to what 'sinfo -o %m' shows",
    "node configuration is not available": "no node has that many GPUs, cores or that feature; see 'sinfo -Nl'",
    "Node count specification invalid": "the partition has fewer nodes; lower 'nodes'",
    "More processors requested": "no node has that many cores; lower 'cpus_per_task' or 'tasks_per_node'",
    "time limit": "the partition allows less time; lower 'time_minutes'",
    "Unable to contact slurm controller": "the Slurm controller does not answer; try 'scontrol ping'",
    "configuration source": "Slurm is installed on this machine but not set up; log in to the cluster",
    "Munge": "munge does not answer on this machine, so Slurm can't tell who you are; ask your administrator",
}


@dataclass(frozen=True)
class SlurmState:
    """Slurm's word on one job."""

    state: str
    reason: str = ""
    restarts: int = 0
    nodes: str = ""
    elapsed: str = ""
    left: str = ""


def is_here() -> bool:
    return all(shutil.which(program) for program in _PROGRAMS)


def require_slurm() -> None:
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            raise UserError(
                f"there is no Slurm on this machine ('{program}' is not in the PATH); log in to the cluster, "
                "or use configs/cluster/local.yaml."
            )


def refusal(message: str, action: str) -> UserError:
    """Slurm's error message as a sentence with advice."""
    text = " ".join(message.replace("sbatch: error:", "").replace("slurm_load_jobs error:", "").split())
    advice = next((a for words, a in _ADVICE.items() if words.lower() in text.lower()), None)
    return UserError(f"Slurm refused to {action}: {advice or text.rstrip('.')}{f' ({text})' if advice else ''}.")


def run_slurm(words: list[str], action: str, tries: int = _TRIES, seconds: float = _COMMAND_SECONDS) -> str:
    """Output of a Slurm command; its failure becomes a UserError."""
    require_slurm()
    done = _patiently(words, tries, seconds)
    if done.returncode != 0:
        raise refusal(done.stderr or done.stdout or f"exit code {done.returncode}", action)
    return done.stdout


def _patiently(words: list[str], tries: int, seconds: float) -> subprocess.CompletedProcess[str]:
    """A busy controller lets commands fail now and then: those that may be repeated get some more tries."""
    for left in reversed(range(tries)):
        done = _run(words, seconds)
        passing = not done.stderr.strip() or any(text in done.stderr for text in _PASSING_TROUBLE)
        if done.returncode == 0 or not passing or left == 0:
            break
        time.sleep(_PAUSE_SECONDS)
    return done


def _run(words: list[str], seconds: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"'{words[0]}' timed out after {seconds:.0f} s")


def states(job_ids: list[str], tries: int = _TRIES, seconds: float = _COMMAND_SECONDS) -> dict[str, SlurmState]:
    """What the controller knows of these jobs; those that it has forgotten come from sacct, if there is one."""
    if not job_ids:
        return {}
    require_slurm()
    layout = ",".join(f"{name}:|" for name in _FIELDS)
    done = _patiently(["squeue", "-h", "-t", "all", "-j", ",".join(job_ids), "-O", layout], tries, seconds)
    if done.returncode != 0 and "Invalid job id" not in done.stderr:
        raise refusal(done.stderr or f"exit code {done.returncode}", "show the jobs")
    found: dict[str, SlurmState] = {}
    for line in done.stdout.splitlines():
        job_id, state, reason, restarts, nodes, elapsed, left = line.split("|")[: len(_FIELDS)]
        found[job_id] = SlurmState(state, reason, int(restarts or 0), nodes, elapsed, left)
    forgotten = [job_id for job_id in job_ids if job_id not in found]
    return found | _accounted(forgotten, seconds) if forgotten else found


def _accounted(job_ids: list[str], seconds: float) -> dict[str, SlurmState]:
    """From sacct; empty on a cluster without accounting."""
    words = ["sacct", "-n", "-X", "-P", "-j", ",".join(job_ids), "-o", "JobID,State,NodeList,Elapsed"]
    if shutil.which("sacct") is None:
        return {}
    done = _run(words, seconds)
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else []:
        job_id, state, nodes, elapsed = line.split("|")
        found[job_id] = SlurmState(state.split()[0], "", 0, nodes, elapsed)
    return found


def find_by_comment(comment: Path | str, tries: int = _TRIES, seconds: float = _COMMAND_SECONDS) -> str | None:
    """The live job with this comment: finds one whose submitter died before it noted the number."""
    for line in run_slurm(["squeue", "-h", "-o", "%i|%k"], "list the jobs", tries, seconds).splitlines():
        job_id, _, text = line.partition("|")
        if text == str(comment):
            return job_id
    return None


def requeue(job_id: str, tries: int = _TRIES) -> None:
    run_slurm(["scontrol", "requeue", job_id], f"requeue job {job_id}", tries)


def cancel(job_id: str) -> None:
    run_slurm(["scancel", job_id], f"cancel job {job_id}")
