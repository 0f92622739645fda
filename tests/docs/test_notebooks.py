"""The notebooks run from top to bottom, and what is kept of their output is small."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from runnable import DOCS

sys.path.insert(0, str(DOCS / "site"))
from run_notebooks import run

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
MOST_BYTES = 60_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    shown = [output for cell in run(path).cells for output in cell.get("outputs", [])]
    assert shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_output_is_kept_and_small(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells), "run it from top to bottom, and save it"
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert "site-packages" not in path.read_text(encoding="utf-8"), "a path of somebody's machine"


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3
