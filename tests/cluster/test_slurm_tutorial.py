"""The tutorial on Slurm, block by block, on a real one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from real_slurm import HERE, Slurm, wait_for

from launch.jobs.record import jobs_of
from launch.status import is_live, states_of
from panendofm.records.run import RunFolder

sys.path.insert(0, str(HERE.parent / "docs"))
from runnable import blocks_of, run_block

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_chain_of_the_tutorial(slurm: Slurm, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "made" / "run")
    said = []
    for block in blocks_of("tutorials/slurm.md"):
        if block.kind == "wait":
            wait_for(lambda: not any(map(is_live, states_of(jobs_of(run)))), 1500, "all jobs are over")
        else:
            said.append(run_block(block, tmp_path))
    assert {state.state for state in states_of(jobs_of(run))} == {"COMPLETED"}, said[-1]
    assert "release" in said[-1]
