"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


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
