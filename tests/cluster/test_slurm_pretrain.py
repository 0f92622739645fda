"""Training on a real Slurm: interrupted in every way that a cluster knows, it ends with the same bits."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from real_slurm import HERE, Slurm, command_of, processes_of, wait_for

from launch.control import cancel_run
from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.record import Job, events_of
from launch.jobs.stages import pretrain_job
from launch.jobs.submit import submit
from launch.progress import progress_of
from launch.status import is_live, job_state
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig

sys.path.insert(0, str(HERE.parent / "pretrain"))
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of, write_shards

STEPS = 30
# Heavy enough that an interruption falls in the middle.
SIZES = {
    "schedule__total": f"{STEPS} steps",
    "checkpoint__every_steps": 10,
    "batch__images": 32,
    "batch__microgroup_images": 4,
}


def cluster_of(time_minutes: int = 10, warn_seconds: int = 120) -> ClusterConfig:
    resources = Resources(nodes=2, tasks_per_node=2, time_minutes=time_minutes)
    environment = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return ClusterConfig(pretrain=resources, warn_seconds=warn_seconds, environment=environment)


def start(run: Path, shards: Path, cluster: ClusterConfig, **changes: object) -> Job:
    config = load_config(PretrainConfig, None, words_of(run, shards, **(SIZES | changes)))
    stage = pretrain_job(config, cluster)
    return submit(stage.job, cluster, stage.files)


def wait_for_steps(run: Path, count: int) -> None:
    path = run / "metrics.jsonl"
    wait_for(lambda: path.is_file() and len(metrics_of(run)) >= count, 240, f"{count} steps are done")


def wait_until_done(job: Job, seconds: float = 240) -> None:
    wait_for(lambda: not is_live(job_state(job.folder)), seconds, "the job is over")
    said = "\n".join(path.read_text() for path in job.folder.glob("*_0_log.out"))
    assert job_state(job.folder).state == "COMPLETED", said


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shards(tmp_path_factory.mktemp("data") / "shards")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, shards: Path) -> Path:
    """The same training on four ranks without Slurm and without interruption."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    run_ranks(words_of(run, shards, **SIZES), 4)
    return run


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_may_go_on_with_another_number_of_nodes(slurm: Slurm, tmp_path: Path, shards: Path) -> None:
    run = tmp_path / "run"
    job = start(run, shards, cluster_of())
    wait_for_steps(run, 4)
    cancel_run(run)
    wait_for(lambda: not is_live(job_state(job.folder)), 90, "it is cancelled")
    done = len(metrics_of(run))
    assert 4 <= done < STEPS
    smaller = replace(cluster_of(), pretrain=Resources(nodes=1, tasks_per_node=2, time_minutes=10))
    wait_until_done(start(run, shards, smaller))
    assert [line["step"] for line in metrics_of(run)] == list(range(STEPS))
    started = [event.ranks for event in events_of(job.folder) if event.event == "started"]
    assert started == [4, 2]


def preempt(slurm: Slurm, job: Job) -> None:
    words = ["--partition=high", "--nodes=4", "--ntasks-per-node=2", "--output=/dev/null", "--wrap=srun sleep 1"]
    slurm.ask("sbatch", *words)


def requeue(slurm: Slurm, job: Job) -> None:
    slurm.ask("scontrol", "requeue", str(job.job_id))


def let_the_time_run_out(slurm: Slurm, job: Job) -> None:
    """A limit that is nearer than the warning makes the warning come at once; then the job gets its old limit again."""
    minutes = int(slurm.ask("squeue", "-h", "-j", str(job.job_id), "-o", "%M").split(":")[-2]) + 2
    slurm.ask("scontrol", "update", f"JobId={job.job_id}", f"TimeLimit={minutes}")
    wait_for(lambda: len(ends_of(job)) == 1, 90, "the warning made it save")
    slurm.ask("scontrol", "update", f"JobId={job.job_id}", "TimeLimit=10")


def kill_a_slurmd(slurm: Slurm, job: Job) -> None:
    """Slurm notices after some 15 s. The first node's ranks stand still until then, else the job could end before."""
    ranks = [number for number in processes_of(str(job.job_id), "n1") if b"\0pretrain\0" in command_of(number)]
    assert len(ranks) == 2
    for number in ranks:
        os.kill(number, signal.SIGSTOP)
    slurm.kill_slurmd("n2")
    try:
        wait_for(lambda: "down" in slurm.ask("sinfo", "-h", "-N", "-n", "n2", "-o", "%T"), 120, "n2 is missed")
    finally:
        for number in ranks:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)


def kill_a_node(slurm: Slurm, job: Job) -> None:
    slurm.kill_node("n2", str(job.job_id))


def ends_of(job: Job) -> list[int]:
    """Exit codes of the job's goes."""
    return [event.exit_code for event in events_of(job.folder) if event.event == "ended"]


def check_interrupted(
    slurm: Slurm, run: Path, shards: Path, undisturbed: Path, interrupt: Callable[[Slurm, Job], None]
) -> Job:
    job = start(run, shards, cluster_of())
    wait_for_steps(run, 4)
    interrupt(slurm, job)
    wait_until_done(job)
    assert job_state(job.folder).requeues >= 1, "it was not interrupted at all"
    assert_same_run(run, undisturbed, STEPS)
    return job


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("interrupt", [preempt, let_the_time_run_out, requeue, kill_a_slurmd, kill_a_node])
def test_interrupted_training_ends_with_the_same_bits(
    slurm: Slurm, tmp_path: Path, shards: Path, undisturbed: Path, interrupt: Callable[[Slurm, Job], None]
) -> None:
    run = tmp_path / "run"
    try:
        job = check_interrupted(slurm, run, shards, undisturbed, interrupt)
    finally:
        if interrupt in (kill_a_slurmd, kill_a_node):
            slurm.start_node("n2")
    if interrupt in (preempt, let_the_time_run_out):
        assert ends_of(job) == [75, 0], "it did not save when it was asked to"
    progress = progress_of(RunFolder(run))
    assert progress is not None and (progress.step, progress.total_steps) == (STEPS, STEPS)
