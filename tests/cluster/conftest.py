"""A real Slurm of four nodes, started once for all tests that need one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from real_slurm import Slurm, free_ports


@pytest.fixture(scope="session")
def slurm_session() -> Iterator[Slurm]:
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sinfo") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"no Slurm here ({', '.join(missing)}); tests/cluster/install.sh installs it")
    if os.geteuid() != 0:
        pytest.skip("starting a Slurm cluster needs root")
    # A short path: a socket's name may have 107 characters.
    root = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    cluster = Slurm(root, free_ports(10))
    before = os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(root / "slurm.conf")
    try:
        cluster.script("start")
        yield cluster
        cluster.cancel_all()
    finally:
        cluster.script("stop")
        if before is None:
            del os.environ["SLURM_CONF"]
        else:
            os.environ["SLURM_CONF"] = before
        time.sleep(0.5)
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def slurm(slurm_session: Slurm) -> Iterator[Slurm]:
    """The cluster, empty; after the test its jobs are cancelled."""
    yield slurm_session
    slurm_session.cancel_all()
