"""What became of each source, the ones that somebody should look at first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from panendofm.reports import Table
from panendofm.reports.numbers import percent

# Drops that say something of the source; repeated frames and copies are as they should be.
_TELLING = ("no_field_of_view", "too_dark", "washed_out", "blurred", "not_endoscopy", "text", "evaluation_image")
# From these shares on a source is pointed out.
_LOST_SHARE = 0.5
_PAINTED_SHARE = 0.05


@dataclass(frozen=True)
class SourceReport:
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


def source_reports(sources: pa.Table, frames: pa.Table) -> list[SourceReport]:
    """All sources of the private list, suspicious ones first, then those that lost most."""
    means = frames.select(["source", "text_filled"]).group_by("source").aggregate([("text_filled", "mean")])
    painted = dict(zip(*(means.column(name).to_pylist() for name in ("source", "text_filled_mean")), strict=True))
    found = [_report(row, painted.get(row["source"], 0.0)) for row in sources.to_pylist()]
    return sorted(found, key=lambda one: (-one.weight, one.kept / max(one.seen, 1), one.corpus, one.source))


def _report(row: dict[str, Any], painted: float) -> SourceReport:
    dropped = dict(row["dropped"])
    seen, kept = row["seen"], row["kept"]
    why, weight = [], 0.0
    if row.get("with_text"):
        why.append(f"text is still read on {row['with_text']} frames")
        weight += 4
    if painted >= _PAINTED_SHARE:
        why.append(f"{100 * painted:.0f}% of its images are painted over")
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
    return SourceReport(
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


def source_table(sources: list[SourceReport], private: bool) -> Table:
    """One row per source; real names are for private pages only. Under hashed names equal rows are one row."""
    alike: dict[tuple[str, ...], list[SourceReport]] = {}
    for source in sources:
        row = _row(source)
        alike.setdefault((source.path, *row) if private else row, []).append(source)
    rows = []
    for same in alike.values():
        first = same[0]
        more = f" and {len(same) - 1:,} more like it" if len(same) > 1 else ""
        rows.append([(first.path if private else first.source) + more, *_row(first)])
    return Table(["source", "corpus", "seen", "kept", "share", "dropped", "look at it because"], rows, numeric=False)


def _row(source: SourceReport) -> tuple[str, ...]:
    dropped = sorted(source.dropped.items(), key=lambda item: -item[1])
    return (
        source.corpus,
        f"{source.seen:,}",
        f"{source.kept:,}",
        percent(source.kept / max(source.seen, 1)),
        ", ".join(f"{reason} {count:,}" for reason, count in dropped),
        "; ".join(source.why),
    )
