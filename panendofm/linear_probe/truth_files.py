"""The test side of a task as the truth file that `challenge score` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import TEST, Sample, Split, Task
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import write_text


def write_truth_files(
    folder: ProbeFolder, source: Path, tasks: Sequence[Task], samples: Sequence[Sample], split: Split
) -> None:
    """file,label,group of the test images, for every task with one answer an image."""
    root = (source if source.is_dir() else source.parent).resolve()
    for task in tasks:
        if not task.exclusive or len(task.levels) > 1:
            continue
        rows = task.rows[split.sides[task.rows] == TEST]
        labels = task.targets[split.sides[task.rows] == TEST].argmax(1)
        write_text(folder.truth(task.name), _table(root, task, samples, split.groups, rows, labels))


def _table(
    root: Path,
    task: Task,
    samples: Sequence[Sample],
    groups: NDArray[np.int64],
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
) -> str:
    lines = []
    for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
        path = Path(samples[row].path)
        file = path.relative_to(root) if path.is_relative_to(root) else Path(path.name)
        lines.append((file.as_posix(), task.classes[label], int(groups[row])))
    return csv_text(("file", "label", "group"), lines)
