"""Preparing data on a Ray cluster inside a Slurm job: the same bytes as on one machine, also when a node dies."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_slurm import HERE, Slurm, wait_for

from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.record import Job, log_files
from launch.jobs.stages import shard_job
from launch.jobs.submit import submit
from launch.status import is_live, job_state
from panendofm.runtime.config import save_config

sys.path.insert(0, str(HERE.parent / "data_pipeline"))
from pipeline_runs import checksums_of, config_for

ONLY = ("ers", "ldpolypvideo")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def made_here(tmp_path_factory: pytest.TempPathFactory, synthetic_corpus: Path) -> dict[str, str]:
    """Checksums of the set that a process without Slurm makes."""
    folder = tmp_path_factory.mktemp("here")
    save_config(config_for(synthetic_corpus, folder / "shards", "shards.size_mb=1", only=ONLY), folder / "config.yaml")
    words = [sys.executable, "-m", "data_pipeline", "shard", str(folder / "config.yaml")]
    subprocess.run(words, check=True, capture_output=True, timeout=900)
    return checksums_of(folder / "shards")


def start(folder: Path, corpus: Path) -> Job:
    cluster = ClusterConfig(shard=Resources(nodes=2, cpus_per_task=2, time_minutes=30))
    config = config_for(corpus, folder / "shards", "shards.size_mb=1", "ray.workers=0", only=ONLY)
    stage = shard_job(config, cluster)
    return submit(stage.job, cluster, stage.files)


def said_by(job: Job) -> str:
    return "\n".join(path.read_text() for path in log_files(job))


def wait_until_done(job: Job) -> None:
    wait_for(lambda: not is_live(job_state(job.folder)), 900, "the job is over")
    state = job_state(job.folder)
    assert (state.state, state.requeues) == ("COMPLETED", 0), said_by(job)


def test_two_nodes_make_the_same_bytes(
    slurm: Slurm, tmp_path: Path, synthetic_corpus: Path, made_here: dict[str, str]
) -> None:
    job = start(tmp_path, synthetic_corpus)
    wait_until_done(job)
    assert "on 2 nodes" in said_by(job)
    assert checksums_of(tmp_path / "shards") == made_here and len(made_here) > 3


def test_a_node_that_dies_changes_no_byte(
    slurm: Slurm, tmp_path: Path, synthetic_corpus: Path, made_here: dict[str, str]
) -> None:
    job = start(tmp_path, synthetic_corpus)
    wait_for(lambda: "on 2 nodes" in said_by(job), 180, "both nodes have joined")
    time.sleep(8)
    assert is_live(job_state(job.folder)), "too late: it has ended already"
    slurm.kill_node("n2", str(job.job_id))
    try:
        wait_until_done(job)
    finally:
        slurm.start_node("n2")
    assert checksums_of(tmp_path / "shards") == made_here
