"""`make notebooks`: run every notebook in a folder of its own, and keep what it shows but not what it warns of."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with its outputs. It draws its data beside itself, so it runs in a temporary folder."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=1200, resources={"metadata": {"path": folder}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which differ from run to run
        if cell.cell_type == "code":
            # Warnings name paths of the machine.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main() -> None:
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    os.environ["OMP_NUM_THREADS"] = "1"
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(run(path), path)
        print(f"ran {path.name}")


if __name__ == "__main__":
    main()
