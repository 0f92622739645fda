"""One benchmark in a process of its own: its figures as JSON. `python -m benchmarks` starts it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from benchmarks.figures import Answer, NotMeasured
from panendofm.records.documents import write_document


def main(name: str, size: str, answer: Path) -> None:
    try:
        found = Answer(tuple(importlib.import_module(f"benchmarks.{name}").figures(size)))
    except NotMeasured as reason:
        found = Answer((), str(reason))
    write_document(answer, found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
