"""The page of a curation: what training sees before and after it, by corpus, organ and cluster, with pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from data_pipeline.curate.features import Frames
from data_pipeline.curate.rows import codes
from data_pipeline.reporting.examples import thumbnail
from panendofm.reports import pages
from panendofm.runtime.files import write_text

Ints = NDArray[np.integer]
Weights = NDArray[np.float64]

_PICTURES, _CLUSTERS, _EXTREMES = 8, 64, 12
_STYLE = ".card { margin-bottom: 0.75rem; } .card img { height: 6rem; margin-right: 0.25rem; }"
_INTRODUCTION = """
<p>Frames are clustered by the features of a network, in several levels. Each of the coarsest clusters gets the same
share of training, which its own clusters share equally, and so on down to the frames; but no frame is seen more than
MOST times an epoch, so that a few odd ones do not fill training. <b>Before</b> is the share of all frames, <b>after</b>
the share of what training sees with these weights.</p>
""".strip()


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
    introduction = _INTRODUCTION.replace("MOST", f"{most_uses:g}")
    largest = _by_size(coarse)[:_CLUSTERS]
    body = [
        f"<h1>Curation of {len(weights):,} frames</h1>{introduction}<p>{pages.text(removal)}</p>",
        *(pages.section(f"By {name}", _shares(name, rows.column(name), weights)) for name in ("corpus", "organ")),
        pages.section("The coarsest clusters", _cards(frames, "coarse", coarse, weights, largest)),
        pages.section("Seen more often: the rarest", _cards(frames, "fine", fine, weights, lifted[:_EXTREMES])),
        pages.section("Seen less often: the most frequent", _cards(frames, "fine", fine, weights, lowered[:_EXTREMES])),
    ]
    write_text(path, pages.page("Curation", "\n".join(body), _STYLE))


def _by_size(clusters: Ints) -> Ints:
    return np.argsort(-np.bincount(clusters), kind="stable")


def _shares(name: str, column: pa.ChunkedArray, weights: Weights) -> str:
    names, of_frame = codes(column)
    if (of_frame < 0).any():
        names = [*names, "unknown"]
        of_frame[of_frame < 0] = len(names) - 1
    before, after = (np.bincount(of_frame, counted, len(names)) for counted in (None, weights))
    rows = [
        [names[i], f"{before[i]:,}", _percent(before[i] / before.sum()), _percent(after[i] / after.sum())]
        for i in sorted(range(len(names)), key=lambda i: (-before[i], names[i]))
    ]
    return pages.table([name, "frames", "before", "after"], rows, numbers=True)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _cards(frames: Frames, level: str, clusters: Ints, weights: Weights, shown: Ints) -> str:
    """A few pictures of each cluster, evenly spaced among its frames, and what becomes of it."""
    cards = []
    for number in shown.tolist():
        rows = np.flatnonzero(clusters == number)
        before, after = len(rows) / len(clusters), weights[rows].sum() / weights.sum()
        some = rows[np.unique(np.linspace(0, len(rows) - 1, _PICTURES).round().astype(int))].tolist()
        pictures = "".join(
            pages.image(thumbnail(np.asarray(frames.picture(row))), str(frames.keys[row]), "jpeg") for row in some
        )
        count = f"{len(rows):,} frame{'s' if len(rows) > 1 else ''}"
        said = (
            f"{level} cluster {number}: {count}, before {_percent(before)}, after {_percent(after)}; a frame is seen "
            f"{weights[rows].mean():.2g} times an epoch"
        )
        cards.append(f'<div class="card">{pictures}<div class="quiet">{pages.text(said)}</div></div>')
    return "".join(cards)
