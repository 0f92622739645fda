"""Fixtures for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from shared_folders import SharedFolder, make_once

REPOSITORY = Path(__file__).resolve().parent.parent

# What is right does not depend on how busy the machine is.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def user_cache_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is kept in the user's cache folder is kept in one of this session, by processes of tests, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("user_cache")))
        yield


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of the numbers that the reference implementation computed."""
    return REPOSITORY / "tests" / "golden"


@pytest.fixture(scope="session")
def real_images() -> Path:
    """Folder of real endoscopy images; they are not part of the repository, so most machines skip these tests."""
    folder = Path(os.environ.get("ENDOSCOPY_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (folder / "kvasir8").is_dir():
        pytest.skip(f"no real endoscopy images at {folder} (set ENDOSCOPY_DATA to a folder that has them)")
    return folder


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> SharedFolder:
    """`shared_folder(name, make)` gives the folder that `make` has filled, once for all workers of a run."""
    return make_once(tmp_path_factory)


@pytest.fixture(scope="session")
def synthetic_corpus(shared_folder: SharedFolder) -> Path:
    """Folder of the synthetic corpus (size small, seed 0), made once for all workers. Read it, don't change it."""
    from panendofm.synthetic import synthesize

    return shared_folder("synthetic_corpus", lambda folder: synthesize(folder, "small", seed=0))


@pytest.fixture(scope="session")
def network_words(tmp_path_factory: pytest.TempPathFactory, golden: Path) -> dict[str, str]:
    """Small weights of every family of networks: name → the word that a user types."""
    from network_words import write_network_words

    return write_network_words(tmp_path_factory.mktemp("networks"), golden)
