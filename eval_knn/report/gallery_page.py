"""A page of queries with their nearest neighbours, in one file that opens without a network."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from eval_knn.evaluator import Evaluator, Result, shown_k
from panendofm.reports import pages
from panendofm.runtime.files import write_text

_NEIGHBOURS = 8
_MISSES, _HITS = 24, 12
_THUMBNAIL_PX = 112

_STYLE = """
.row { display: flex; gap: 8px; overflow-x: auto; padding: 8px 0; border-bottom: 1px solid #ddd; }
.row figure { flex: 0 0 112px; font-size: 12px; padding: 0; border: 0; } figure.query { margin-right: 14px; }
.row img { box-sizing: border-box; width: 112px; height: 112px; border: 4px solid #888; object-fit: cover; }
figure.same img { border-color: #2a8a3e; } figure.other img { border-color: #c0392b; }
"""


def write_gallery_page(path: Path, result: Result, evaluator: Evaluator, pictures: Sequence[Path]) -> None:
    """Misses first: they teach more than hits."""
    images, split = evaluator.images, evaluator.split
    truth = images.labels[split.queries]
    wrong = result.predicted != truth
    document = result.document
    k = shown_k(evaluator.config)
    at_k = document.k[str(k)]
    note = document.leakage.note
    title = f"{document.checkpoint}: nearest neighbours"
    parts = [
        f"<h1>{pages.text(title)}</h1>",
        f"<p>{document.data.queries} queries, {document.data.gallery} gallery images. Top-1 at k = {k}: "
        f"{at_k.top1:.4f}. {pages.text(note[:1].upper() + note[1:])}</p>",
        "<p>Green frame: a neighbour of the query's class; red: of another. Under each: class, similarity.</p>",
    ]
    for title, mask, most in (("Misses", wrong, _MISSES), ("Hits", ~wrong, _HITS)):
        shown = _spread(np.flatnonzero(mask), truth, most)
        parts.append(f"<h2>{title}: {len(shown)} of {int(mask.sum())}</h2>")
        parts += [_row(query, result, evaluator) for query in shown]
    parts.append("<h2>Pictures</h2>")
    parts += [f"<p>{pages.image(picture.read_bytes(), picture.stem)}</p>" for picture in pictures]
    write_text(path, pages.page(title, "\n".join(parts), _STYLE))


def _spread(candidates: NDArray[np.int64], truth: NDArray[np.int64], most: int) -> list[int]:
    """Up to `most` queries, taken in turn from every class."""
    by_class = [candidates[truth[candidates] == label] for label in np.unique(truth[candidates])]
    turns = [(turn, label, int(query)) for label, rows in enumerate(by_class) for turn, query in enumerate(rows)]
    return [query for _, _, query in sorted(turns)[:most]]


def _row(query: int, result: Result, evaluator: Evaluator) -> str:
    images, split = evaluator.images, evaluator.split
    row = int(split.queries[query])
    own = int(images.labels[row])
    predicted = images.class_names[int(result.predicted[query])]
    cells = [_figure(evaluator, row, "query", f"{images.class_names[own]}, taken for {predicted}")]
    for place in range(min(_NEIGHBOURS, result.neighbours.rows.shape[1])):
        position = int(result.neighbours.rows[query, place])
        if position < 0:
            break
        neighbour = int(split.gallery[position])
        label = int(images.labels[neighbour])
        similarity = float(result.neighbours.similarities[query, place])
        kind = "same" if label == own else "other"
        cells.append(_figure(evaluator, neighbour, kind, f"{images.class_names[label]}, {similarity:.3f}"))
    return f"<div class='row'>{''.join(cells)}</div>"


def _figure(evaluator: Evaluator, row: int, kind: str, caption: str) -> str:
    image = evaluator.images[row]
    image.thumbnail((2 * _THUMBNAIL_PX, 2 * _THUMBNAIL_PX), Image.Resampling.BICUBIC)
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=70)
    picture = pages.image(buffer.getvalue(), caption, "jpeg")  # no file name: it may be a patient's
    return f"<figure class='{kind}'>{picture}<figcaption>{pages.text(caption)}</figcaption></figure>"
