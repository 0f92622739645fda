"""Fixtures that the engine's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_runs import run_ranks, words_of, write_shards


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 small images in three shards. Tests that damage them make their own."""
    return write_shards(tmp_path_factory.mktemp("data") / "shards")


@pytest.fixture(scope="session")
def undisturbed(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve steps on two ranks, left alone."""
    run = tmp_path_factory.mktemp("runs") / "undisturbed"
    run_ranks(words_of(run, shards), 2)
    return run
