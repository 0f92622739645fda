"""Folders that are made once for all workers of a test run."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

SharedFolder = Callable[[str, Callable[[Path], object]], Path]


def make_once(factory: pytest.TempPathFactory) -> SharedFolder:
    """The first worker to ask for a folder makes it, the others wait. One whose making has failed is made anew."""
    # Workers of pytest-xdist have temporary folders below a common one.
    common = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent

    def shared(name: str, make: Callable[[Path], object]) -> Path:
        folder = common / name
        finished = common / f"{name}.finished"
        with (common / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not finished.exists():
                shutil.rmtree(folder, ignore_errors=True)
                make(folder)
                finished.touch()
        return folder

    return shared
