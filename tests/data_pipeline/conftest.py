"""Fixtures of the pipeline's tests: one Ray for all of them, and one finished set of shards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pipeline_runs import FinishedRun, config_for

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
def finished_run(synthetic_corpus: Path, tmp_path_factory: pytest.TempPathFactory, ray_cluster: None) -> FinishedRun:
    """All five corpora; components that the registry knows as copies are kept, so that their content must tell."""
    from data_pipeline import shard

    config = config_for(synthetic_corpus, tmp_path_factory.mktemp("run") / "shards", "known_overlaps=keep")
    shard(config)
    return FinishedRun(config)
