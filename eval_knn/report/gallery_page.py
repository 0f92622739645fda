"""A page of queries with their nearest neighbors, in one file that opens without a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from eval_knn.evaluator import Evaluator, Result, shown_k
from panendofm.imaging.images import thumbnail
from panendofm.reports import PageImage, render_page
from panendofm.reports.charts import confusion_chart
from panendofm.runtime.files import write_text

_NEIGHBORS = 8
_MOST_MISSES = 24
_MOST_HITS = 12
_THUMBNAIL_PX = 112


@dataclass(frozen=True)
class Cell:
    """A query, or a neighbor of its class or of another."""

    kind: Literal["query", "same", "other"]
    image: PageImage


@dataclass(frozen=True)
class Part:
    """Some queries, each with its neighbors, of `total`."""

    title: str
    rows: list[list[Cell]]
    total: int


def write_gallery_page(path: Path, result: Result, evaluator: Evaluator, plots: Sequence[Path]) -> None:
    """Misses first: they teach more than hits."""
    document = result.document
    k = shown_k(evaluator.config)
    truth = evaluator.images.labels[evaluator.split.queries]
    wrong = result.predicted != truth
    parts = []
    for title, mask, most in (("Misses", wrong, _MOST_MISSES), ("Hits", ~wrong, _MOST_HITS)):
        shown = _spread(np.flatnonzero(mask), truth, most)
        parts.append(Part(title, [_row(query, result, evaluator) for query in shown], int(mask.sum())))
    page = render_page(
        "eval_knn",
        "gallery.html",
        title=f"{document.checkpoint}: nearest neighbors",
        document=document,
        k=k,
        top1=document.k[str(k)].top1,
        parts_of_queries=parts,
        confusion=confusion_chart(document.data.classes, document.data.classes, document.k[str(k)].confusion),
        plots=[PageImage(plot.read_bytes(), plot.stem, "png") for plot in plots],
    )
    write_text(path, page)


def _spread(candidates: NDArray[np.int64], truth: NDArray[np.int64], most: int) -> list[int]:
    """Up to `most` queries, taken in turn from every class."""
    by_class = [candidates[truth[candidates] == label] for label in np.unique(truth[candidates])]
    turns = [(turn, label, int(query)) for label, rows in enumerate(by_class) for turn, query in enumerate(rows)]
    return [query for _, _, query in sorted(turns)[:most]]


def _row(query: int, result: Result, evaluator: Evaluator) -> list[Cell]:
    images, split = evaluator.images, evaluator.split
    row = int(split.queries[query])
    own = int(images.labels[row])
    predicted = images.class_names[int(result.predicted[query])]
    cells = [Cell("query", _thumbnail(evaluator, row, f"{images.class_names[own]}, taken for {predicted}"))]
    for place in range(min(_NEIGHBORS, result.neighbors.rows.shape[1])):
        position = int(result.neighbors.rows[query, place])
        if position < 0:
            break
        neighbor = int(split.gallery[position])
        label = int(images.labels[neighbor])
        similarity = float(result.neighbors.similarities[query, place])
        image = _thumbnail(evaluator, neighbor, f"{images.class_names[label]}, {similarity:.3f}")
        cells.append(Cell("same" if label == own else "other", image))
    return cells


def _thumbnail(evaluator: Evaluator, row: int, caption: str) -> PageImage:
    """The caption names no file: its name may be a patient's."""
    return PageImage(thumbnail(evaluator.images[row], 2 * _THUMBNAIL_PX), caption)
