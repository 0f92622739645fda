"""What a task states of itself: classes and images on each side."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import SPLITS, Task, evaluable
from panendofm.linear_probe.results.document import ClassCounts, TaskCounts


def task_counts(task: Task, sides: NDArray[np.int64]) -> TaskCounts:
    can = evaluable(task, sides) if len(task.rows) else np.zeros(len(task.classes), bool)
    counts = Counter(sides.tolist())
    per_class = {}
    for level in task.levels:
        for i in range(level.start, level.stop):
            on_sides = (int(task.targets[sides == side, i].sum()) for side in range(len(SPLITS)))
            per_class[task.class_name(i)] = ClassCounts(bool(can[i]), *on_sides)
    return TaskCounts(
        title=task.title,
        classes=len(task.classes),
        evaluable_classes=int(can.sum()),
        classes_without_images=list(task.without_images),
        images={name: counts[i] for i, name in enumerate(SPLITS)},
        left_out_contradictory=task.left_out,
        per_class=per_class,
    )
