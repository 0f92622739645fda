"""The blocks of a page that are marked to be run, as a reader would type them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^<!-- run -->\n```(sh|python)\n(.*?)^```$|^<!-- (wait .*?) -->$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A shell or Python block; or, of the kind "wait", a place where a reader would wait for something."""

    kind: str
    text: str


def blocks_of(page: str) -> list[Block]:
    found = _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))
    return [Block("wait", match[3]) if match[3] else Block(match[1], match[2]) for match in found]


def run_block(block: Block, folder: Path, variables: dict[str, str] | None = None) -> str:
    """What the block prints, in a folder of the reader's; what fails is shown with all that was said."""
    program = ["bash", "-euo", "pipefail", "-c"] if block.kind == "sh" else [sys.executable, "-c"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*program, block.text],
        cwd=folder,
        env=os.environ | {"PATH": path, "OMP_NUM_THREADS": "1"} | (variables or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stdout[-4000:]}"
    return done.stdout
