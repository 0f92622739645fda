"""ROC curves and confusion matrices."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from panendofm.atlas import Level, Task
from panendofm.linear_probe.results.evaluate import confusion
from panendofm.linear_probe.run import Outcome
from panendofm.scoring.classification.metrics import roc_auc, roc_curve

# More classes than this can't be read in one plot.
_MAX_CURVES, _MAX_CLASSES = 12, 40


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    # Without the software's name equal results give equal bytes.
    figure.savefig(buffer, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()


def roc_plot(task: Task, outcomes: dict[str, Outcome], level: Level) -> bytes:
    """One panel a network: a curve for every evaluable class of the level, the most frequent ones if there are many."""
    figure = Figure(figsize=(4.2 * len(outcomes), 4.2), layout="constrained")
    for axes, (name, outcome) in zip(_axes(figure, len(outcomes)), outcomes.items(), strict=True):
        counts, areas = outcome.targets.sum(0), roc_auc(outcome.targets, outcome.logits)
        evaluable = [metrics.evaluable for metrics in outcome.metrics.per_class.values()]
        inside = [c for c in range(level.start, level.stop) if evaluable[c]]
        for c in sorted(inside, key=lambda i: -counts[i])[:_MAX_CURVES]:
            false_rate, true_rate = roc_curve(outcome.targets[:, c], outcome.logits[:, c])
            axes.plot(false_rate, true_rate, label=f"{task.classes[c]} {areas[c]:.2f}", linewidth=1.2)
        axes.plot([0, 1], [0, 1], color="gray", linewidth=0.6, linestyle=":")
        axes.set(
            title=name, xlabel="1 − specificity", ylabel="sensitivity", aspect="equal", xlim=(0, 1), ylim=(0, 1.01)
        )
        if inside:
            axes.legend(fontsize=6, loc="lower right")
    return _png(figure)


def confusion_plot(task: Task, outcomes: dict[str, Outcome], level: Level) -> bytes | None:
    """One panel a network: truth down, answer across; None when there are too many classes to read."""
    size = level.stop - level.start
    if size > _MAX_CLASSES:
        return None
    side = max(3.2, 0.32 * size + 1.8)
    figure = Figure(figsize=(side * len(outcomes), side), layout="constrained")
    names = task.classes[level.start : level.stop]
    for axes, (name, outcome) in zip(_axes(figure, len(outcomes)), outcomes.items(), strict=True):
        counts = confusion(outcome.targets, outcome.logits, level.start, level.stop)
        shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for i in range(size):
            for j in range(size):
                if counts[i, j]:
                    color = "white" if shares[i, j] > 0.6 else "black"
                    axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=7, color=color)
        axes.set_xticks(range(size), names, rotation=90, fontsize=7)
        axes.set_yticks(range(size), names, fontsize=7)
        axes.set(title=name, xlabel="answer", ylabel="truth")
    return _png(figure)


def _axes(figure: Figure, count: int) -> list[Any]:
    return list(np.atleast_1d(figure.subplots(1, count)))
