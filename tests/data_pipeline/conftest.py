"""Fixtures of the pipeline's tests: one Ray for those of a worker, and one finished set of shards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_runs import FinishedRun, config_for
from shared_folders import SharedFolder

from data_pipeline import PipelineConfig

# Ray runs its workers at low priority; beside other work they would take minutes.
os.environ.setdefault("RAY_worker_niceness", "0")


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A Ray with four cores in name, so that 1, 2 and 4 tasks at a time can be compared."""
    import ray

    from data_pipeline.cluster import start_local

    start_local(cores=4, object_store_mb=150)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def finished_run(synthetic_corpus: Path, shared_folder: SharedFolder, request: pytest.FixtureRequest) -> FinishedRun:
    """All five corpora; components that the registry knows as copies are kept, so that their content must tell.

    Made once for all workers. Read it, don't change it.
    """
    from data_pipeline import shard

    def config_in(folder: Path) -> PipelineConfig:
        return config_for(synthetic_corpus, folder / "shards", "known_overlaps=keep")

    def make(folder: Path) -> None:
        request.getfixturevalue("ray_cluster")  # not started where the shards are there
        shard(config_in(folder))

    return FinishedRun(config_in(shared_folder("finished_run", make)))
