"""Ray inside a Slurm allocation: the nodes find one another, a lost one is survived, nothing stays behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from real_slurm import HERE, Slurm, processes_of, wait_for

from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.record import Job
from launch.jobs.submit import describe, submit
from launch.status import is_live, job_state


def start(run: Path, tasks: int) -> Job:
    run.mkdir()
    resources = Resources(nodes=2, cpus_per_task=2, time_minutes=10)
    cluster = ClusterConfig(shard=resources, environment={"PYTHONPATH": str(HERE)})
    words = ["ray_stage", str(run), str(tasks)]
    return submit(describe("shard", run, words, cluster, uses_ray=True, restarts_freely=True), cluster)


@pytest.mark.slow
def test_two_nodes_work_together_and_leave_nothing_behind(slurm: Slurm, tmp_path: Path) -> None:
    job = start(tmp_path / "a", 40)
    wait_for(lambda: not is_live(job_state(job.folder)), 120, "the job is over")
    assert job_state(job.folder).state == "COMPLETED", (job.folder / f"{job.job_id}_0_log.out").read_text()
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    assert result["squares"] == [number * number for number in range(40)]
    assert len(result["nodes"]) == 2
    wait_for(lambda: not processes_of(str(job.job_id)), 20, "no process of the job is left")
    assert not Path(f"/tmp/ray_{os.getuid()}_{job.job_id}").exists()
    assert not list(job.folder.glob("*.token"))


@pytest.mark.slow
def test_a_node_that_dies_on_the_way_is_survived(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 60)
    wait_for(lambda: len(list(run.glob("running_on_*"))) == 2, 90, "both nodes work")
    slurm.kill_node("n2", str(job.job_id))
    try:
        wait_for(lambda: not is_live(job_state(job.folder)), 200, "the job is over")
        state = job_state(job.folder)
        assert (state.state, state.requeues) == ("COMPLETED", 0)
    finally:
        slurm.start_node("n2")
    result = json.loads((run / "result.json").read_text())
    assert result["squares"] == [number * number for number in range(60)]
    assert result["alive"] == 1
