"""Jobs that the controller has forgotten are known from a real sacct."""

from __future__ import annotations

from pathlib import Path

import pytest
from real_slurm import Slurm, wait_for
from test_slurm_jobs import cluster_of, start, trace, wait_until

from launch.control import cancel_run
from launch.jobs import slurm as slurm_commands
from launch.jobs.cluster import Resources
from launch.status import job_state


@pytest.mark.slow
def test_a_forgotten_job_is_known_from_accounting(slurm_with_accounting: Slurm, tmp_path: Path) -> None:
    one_task = cluster_of(pretrain=Resources(time_minutes=5))
    done = start(tmp_path / "done", 2, cluster=one_task)
    wrong = start(tmp_path / "wrong", 2, "user_error", cluster=one_task)
    ended = start(tmp_path / "ended", 600)
    wait_until(done, "COMPLETED")
    wait_until(wrong, "FAILED")
    wait_for(lambda: len(trace(tmp_path / "ended", "start")) == 4, 120, "all ranks are up")
    cancel_run(tmp_path / "ended")
    wait_until(ended, "CANCELLED")
    jobs = {job.job_id: job for job in (done, wrong, ended)}

    def told() -> str:
        return slurm_with_accounting.ask("sacct", "-n", "-X", "-P", "-o", "JobID,State,NodeList")

    # The controller hands its records on in its own time; "CANCELLED by 0" is the form that has to be understood.
    wait_for(lambda: "CANCELLED by" in told() and "COMPLETED" in told() and "FAILED" in told(), 60, "all is accounted")
    slurm_with_accounting.script("forget")
    for job in jobs.values():  # nor do the jobs' own notes tell
        (job.folder / "events.jsonl").unlink()
    assert slurm_with_accounting.ask("squeue", "-h", "-t", "all") == ""
    states = {number: job_state(job.folder) for number, job in jobs.items()}
    assert [state.state for state in states.values()] == ["COMPLETED", "FAILED", "CANCELLED"]
    assert states[ended.job_id].nodes == told().splitlines()[2].split("|")[2]
    assert slurm_commands.states(["999999"]) == {}
