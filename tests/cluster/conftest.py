"""A real Slurm of four nodes, started once for all tests that need one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_slurm import Slurm, free_ports


@contextmanager
def cluster(accounting: bool) -> Iterator[Slurm]:
    """A new Slurm, which all commands of this process then ask."""
    programs = ["slurmctld", "slurmd", "munged", "sinfo", *(["slurmdbd", "mariadbd"] if accounting else [])]
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no Slurm here ({', '.join(missing)}); 'sh tests/cluster/install.sh accounting' installs all")
    if os.geteuid() != 0:
        pytest.skip("starting a Slurm cluster needs root")
    # A short path: a socket's name may have 107 characters.
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    started = Slurm(root, free_ports(12), accounting)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(root / "slurm.conf"))
        try:
            started.script("start")
            yield started
            started.cancel_all()
        finally:
            started.script("stop")
            time.sleep(0.5)
            shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def slurm_session() -> Iterator[Slurm]:
    with cluster(accounting=False) as started:
        yield started


@pytest.fixture
def slurm(slurm_session: Slurm) -> Iterator[Slurm]:
    """The cluster, empty; after the test its jobs are cancelled."""
    yield slurm_session
    slurm_session.cancel_all()


@pytest.fixture
def slurm_with_accounting() -> Iterator[Slurm]:
    """One that has sacct, for one test."""
    with cluster(accounting=True) as started:
        yield started
