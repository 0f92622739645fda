"""What is taken for what: the most confused pairs of classes, and at which level of a tree answers go wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import Level, Task
from panendofm.linear_probe.results.document import ConfusedPair, TreeErrors
from panendofm.scoring.classification.metrics import Floats, Targets
from panendofm.scoring.statistics.estimates import Estimate, estimate

MOST_PAIRS, MOST_EXAMPLES = 8, 3


def confused_pairs(
    task: Task, targets: Targets, logits: Floats, ids: Sequence[str], weights: Floats, confidence: float
) -> list[ConfusedPair]:
    """The pairs of every level with most images, of images that show one class of the level."""
    found = []
    for level in task.levels:
        rows, truth, answer = _answers(targets, logits, level)
        wrong = truth != answer
        pairs, counts = np.unique(np.stack([truth[wrong], answer[wrong]], axis=1), axis=0, return_counts=True)
        for number in np.lexsort((pairs[:, 1], pairs[:, 0], -counts))[:MOST_PAIRS]:
            a, b = pairs[number].tolist()
            of_truth = truth == a
            taken = (of_truth & (answer == b)).astype(np.float64)
            own = logits[rows, level.start : level.stop]
            margin = own[:, b] - own[:, a]
            surest = sorted(np.flatnonzero(taken).tolist(), key=lambda i: -margin[i])[:MOST_EXAMPLES]
            found.append(
                ConfusedPair(
                    level=level.name,
                    truth=task.classes[level.start + a],
                    answer=task.classes[level.start + b],
                    images=int(counts[number]),
                    of=int(of_truth.sum()),
                    share=_share(taken[of_truth], weights[:, rows[of_truth]], confidence),
                    examples=[ids[rows[i]] for i in surest],
                )
            )
    return found


def tree_errors(task: Task, targets: Targets, logits: Floats, weights: Floats, confidence: float) -> TreeErrors | None:
    """None for a task with one level. The answer is the most likely class of the last level, and what lies above."""
    if not task.ancestors:
        return None
    rows, truth, answer = _answers(targets, logits, task.levels[-1])
    names = [level.name for level in task.levels]
    paths = [(*above, name) for above, name in zip(task.ancestors, task.classes[task.levels[-1].start :], strict=True)]
    first_wrong = np.array([_first_difference(paths[a], paths[b]) for a, b in zip(truth, answer, strict=True)], int)
    own = weights[:, rows]
    distance = (len(names) - first_wrong).astype(np.float64)
    return TreeErrors(
        images=len(rows),
        right=_share((first_wrong == len(names)).astype(np.float64), own, confidence),
        wrong_at={
            name: _share((first_wrong == number).astype(np.float64), own, confidence)
            for number, name in enumerate(names)
        },
        distance=_share(distance, own, confidence),
    )


def _answers(
    targets: Targets, logits: Floats, level: Level
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows that show exactly one class of the level, that class, and the most likely one."""
    own = targets[:, level.start : level.stop]
    rows = np.flatnonzero(own.sum(1) == 1)
    return rows, own[rows].argmax(1), logits[rows, level.start : level.stop].argmax(1)


def _first_difference(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b), len(one))


def _share(values: Floats, weights: Floats, confidence: float) -> Estimate:
    """The mean of values [n] under weights [1 + R, n]; replicates without an image say nothing."""
    total = weights.sum(1)
    means = np.divide(weights @ values, total, out=np.full(len(weights), np.nan), where=total > 0)
    return estimate(means, confidence)
