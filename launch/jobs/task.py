"""`python -m launch.jobs.task JOB_FOLDER`: one task of a Slurm job becomes one rank of the stage."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from launch.jobs.record import Job, JobEvent, read_job, record_event
from panendofm.runtime.ports import FIRST_PORT, PORTS


def rendezvous(slurm: Mapping[str, str]) -> dict[str, str]:
    """torchrun's environment variables from Slurm's.

    Rank 0 is on the node that runs the batch script, whose address Slurm tells. The port changes with every restart,
    so that a straggler of the last go can't meet the new one.
    """
    restart = int(slurm.get("SLURM_RESTART_COUNT", "0"))
    return {
        "RANK": slurm["SLURM_PROCID"],
        "WORLD_SIZE": slurm["SLURM_NTASKS"],
        "LOCAL_RANK": slurm["SLURM_LOCALID"],
        "LOCAL_WORLD_SIZE": str(int(slurm["SLURM_NTASKS"]) // int(slurm["SLURM_NNODES"])),
        "MASTER_ADDR": slurm["SLURM_LAUNCH_NODE_IPADDR"],
        "MASTER_PORT": str(port_of(int(slurm["SLURM_JOB_ID"]), restart)),
    }


def port_of(job_id: int, restart: int) -> int:
    return FIRST_PORT + (job_id * 37 + restart) % PORTS


def record_start(job: Job) -> None:
    env = os.environ
    started = JobEvent(
        "started",
        job_id=env["SLURM_JOB_ID"],
        restart=int(env.get("SLURM_RESTART_COUNT", "0")),
        nodes=env["SLURM_JOB_NODELIST"],
        ranks=int(env["SLURM_NTASKS"]),
    )
    record_event(job, started)


def main(folder: Path) -> None:
    job = read_job(folder)
    os.environ.update(rendezvous(os.environ))
    if os.environ["RANK"] == "0":
        record_start(job)
    # Replaced, not started as a child: Slurm's signals reach the stage itself, and its exit code is the task's.
    os.execv(sys.executable, [sys.executable, "-m", *job.words])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
