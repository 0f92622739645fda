"""The page that is never published: sources by their real names, painted frames beside what they were before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data_pipeline.reporting.source_report import SourceLoss
from panendofm.records.shards import PrivateFolder
from panendofm.reports import pages
from panendofm.runtime.files import write_text
from panendofm.runtime.parquet_files import read_parquet

STYLE = """
.sheet { display: flex; flex-wrap: wrap; gap: 4px; } .sheet img { height: 104px; }
.pair { display: inline-flex; gap: 2px; margin: 0 12px 8px 0; max-width: 100%; }
.pair img { height: auto; width: 160px; max-width: 49%; object-fit: contain; }
"""
_SHOWN = 200


def write_private_report(folder: PrivateFolder, losses: list[SourceLoss]) -> Path:
    """PRIVATE/report.html."""
    painted: list[dict[str, Any]] = []
    if folder.painted.is_file():
        painted = read_parquet(folder.painted, "make the shards again").to_pylist()
    pairs = "".join(
        f"<span class=pair>{pages.image(e['beside'], 'as it came', 'jpeg')}"
        f"{pages.image(e['jpeg'], 'in the shards', 'jpeg')}</span>"
        for e in painted
    )
    body = (
        "<h1>Private: never publish this page</h1><p>It shows names of files, and pictures as they came.</p>"
        "<h2>Painted text</h2>"
        + (
            f"<p>As they came, and as they are in the shards:</p>{pairs}"
            if pairs
            else "<p>Nothing was painted over.</p>"
        )
        + "<h2>Sources, suspicious ones first</h2>"
        + losses_table(losses, private=True)
    )
    write_text(folder.report, pages.page("Shards, private", body, STYLE))
    folder.report.chmod(0o600)
    return folder.report


def losses_table(losses: list[SourceLoss], private: bool) -> str:
    """One row per source. Real names are for private pages only."""
    rows = [
        [
            loss.path if private else loss.source,
            loss.corpus,
            f"{loss.seen:,}",
            f"{loss.kept:,}",
            f"{100 * loss.kept / max(loss.seen, 1):.0f}%",
            ", ".join(f"{reason} {count:,}" for reason, count in sorted(loss.dropped.items(), key=lambda r: -r[1])),
            "; ".join(loss.why),
        ]
        for loss in losses[:_SHOWN]
    ]
    more = f"<p class=quiet>and {len(losses) - _SHOWN:,} more sources.</p>" if len(losses) > _SHOWN else ""
    return pages.table(["source", "corpus", "seen", "kept", "share", "dropped", "look at it because"], rows) + more
