"""The page that is never published: sources by their real names, painted frames beside what they were before."""

from __future__ import annotations

from pathlib import Path

from data_pipeline.reporting.examples import ExampleRow
from data_pipeline.reporting.source_report import SourceReport, source_table
from panendofm.records.shards import PrivateFolder
from panendofm.reports import PageImage, render_page
from panendofm.runtime.files import write_text
from panendofm.runtime.parquet_files import read_parquet

_SHOWN = 200


def write_private_report(folder: PrivateFolder, sources: list[SourceReport]) -> Path:
    """PRIVATE/report.html."""
    painted: list[ExampleRow] = []
    if folder.painted.is_file():
        painted = read_parquet(folder.painted, "make the shards again").to_pylist()
    page = render_page(
        "data_pipeline",
        "private.html",
        title="Shards, private",
        painted=[(PageImage(e["beside"], "as it came"), PageImage(e["jpeg"], "in the shards")) for e in painted],
        sources=source_table(sources[:_SHOWN], private=True),
        more=max(len(sources) - _SHOWN, 0),
    )
    write_text(folder.report, page)
    folder.report.chmod(0o600)
    return folder.report
