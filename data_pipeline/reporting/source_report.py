"""What became of each source, the ones that somebody should look at first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# Drops that say something of the source; repeated frames and copies are as they should be.
_TELLING = ("no_field_of_view", "too_dark", "washed_out", "blurred", "not_endoscopy", "text", "evaluation_image")
# From these shares on a source is pointed out.
_LOST_SHARE = 0.5
_PAINTED_SHARE = 0.05


@dataclass(frozen=True)
class SourceLoss:
    """One source; `why` says what is odd about it and is empty for most."""

    corpus: str
    source: str  # its hashed name
    path: str  # its real one, for private pages only
    seen: int
    kept: int
    dropped: dict[str, int]
    painted: float  # mean share of its kept frames that was painted over
    broken: int
    why: tuple[str, ...]
    weight: float  # the most suspicious first


def losses_of(sources: pa.Table, frames: pa.Table) -> list[SourceLoss]:
    """All sources of the private list, suspicious ones first, then those that lost most."""
    means = frames.select(["source", "text_filled"]).group_by("source").aggregate([("text_filled", "mean")])
    painted = dict(zip(*(means.column(name).to_pylist() for name in ("source", "text_filled_mean")), strict=True))
    found = [_loss(row, painted.get(row["source"], 0.0)) for row in sources.to_pylist()]
    return sorted(found, key=lambda loss: (-loss.weight, loss.kept / max(loss.seen, 1), loss.corpus, loss.source))


def _loss(row: dict[str, Any], painted: float) -> SourceLoss:
    dropped = dict(row["dropped"])
    seen, kept = row["seen"], row["kept"]
    why, weight = [], 0.0
    if row.get("with_text"):
        why.append(f"text is still read on {row['with_text']} frames")
        weight += 4
    if painted >= _PAINTED_SHARE:
        why.append(f"{100 * painted:.0f}% of its pictures are painted over")
        weight += 2 + painted
    for reason in _TELLING:
        share = dropped.get(reason, 0) / max(seen, 1)
        if share >= _LOST_SHARE:
            why.append(f"{100 * share:.0f}% of its frames: {reason.replace('_', ' ')}")
            weight += 1 + share
    if seen and not kept and row["copy_of"] is None:
        why.append("nothing of it is kept")
        weight += 1
    if row["problems"]:
        why.append(f"{len(row['problems'])} of its files are broken")
        weight += 1
    return SourceLoss(
        row["corpus"],
        row["source"],
        row["path"],
        seen,
        kept,
        dropped,
        painted,
        len(row["problems"]),
        tuple(why),
        weight,
    )
