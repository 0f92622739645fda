"""The page of a curation: what training sees before and after it, by corpus, organ and cluster, with images."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_pipeline.curate.features import Frames
from data_pipeline.curate.rows import codes
from data_pipeline.reporting.examples import EXAMPLE_PX
from panendofm.imaging.images import thumbnail
from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.numbers import percent
from panendofm.runtime.files import write_text

Ints = NDArray[np.integer]
Weights = NDArray[np.float64]

_IMAGES = 8
_CLUSTERS = 64
_EXTREMES = 12


@dataclass(frozen=True)
class ShownCluster:
    images: list[PageImage]
    text: str


def write_page(
    path: Path,
    frames: Frames,
    rows: pa.Table,
    clusters: NDArray[np.int32],
    weights: Weights,
    removal: str,
    most_uses: float,
) -> None:
    """Rows [N] of the manifest, clusters [N, levels], weights [N]; `removal` says what became of near-duplicates."""
    coarse, fine = clusters[:, -1], clusters[:, 0]
    size = np.bincount(fine)
    gain = np.bincount(fine, weights=weights) / size  # mean weight of each of the finest clusters
    lifted, lowered = np.argsort(-gain, kind="stable"), np.argsort(gain, kind="stable")
    page = render_page(
        "data_pipeline",
        "curation.html",
        title="Curation",
        frames=len(weights),
        most_uses=most_uses,
        removal=removal,
        shares_by=[(name, _shares(name, rows.column(name), weights)) for name in ("corpus", "organ")],
        coarsest=_shown(frames, "coarse", coarse, weights, _by_size(coarse)[:_CLUSTERS]),
        rarest=_shown(frames, "fine", fine, weights, lifted[:_EXTREMES]),
        most_frequent=_shown(frames, "fine", fine, weights, lowered[:_EXTREMES]),
    )
    write_text(path, page)


def _by_size(clusters: Ints) -> Ints:
    return np.argsort(-np.bincount(clusters), kind="stable")


def _shares(name: str, column: pa.ChunkedArray, weights: Weights) -> Table:
    names, of_frame = codes(column)
    if (of_frame < 0).any():
        names = [*names, "unknown"]
        of_frame[of_frame < 0] = len(names) - 1
    before, after = (np.bincount(of_frame, counted, len(names)) for counted in (None, weights))
    rows = [
        [names[i], f"{before[i]:,}", percent(before[i] / before.sum(), 2), percent(after[i] / after.sum(), 2)]
        for i in sorted(range(len(names)), key=lambda i: (-before[i], names[i]))
    ]
    return Table([name, "frames", "before", "after"], rows)


def _shown(frames: Frames, level: str, clusters: Ints, weights: Weights, numbers: Ints) -> list[ShownCluster]:
    """A few images of each cluster, evenly spaced among its frames, and what becomes of it."""
    shown = []
    for number in numbers.tolist():
        rows = np.flatnonzero(clusters == number)
        before, after = len(rows) / len(clusters), weights[rows].sum() / weights.sum()
        some = rows[np.unique(np.linspace(0, len(rows) - 1, _IMAGES).round().astype(int))].tolist()
        images = [PageImage(thumbnail(frames.image(row), EXAMPLE_PX), str(frames.keys[row])) for row in some]
        count = f"{len(rows):,} frame{'s' if len(rows) > 1 else ''}"
        shares = f"before {percent(before, 2)}, after {percent(after, 2)}"
        text = f"{level} cluster {number}: {count}, {shares}; a frame is seen {weights[rows].mean():.2g} times an epoch"
        shown.append(ShownCluster(images, text))
    return shown
