"""The notebooks run from top to bottom, and what is kept of their output is small."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from runnable import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
MOST_BYTES = 60_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(tmp_path)}}).execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_output_is_kept_and_small(path: Path) -> None:
    assert path.stat().st_size < MOST_BYTES
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells), "run it from top to bottom, and save it"
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3
