"""What a release says of itself: Croissant metadata for programs and DATASHEET.md for readers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from panendofm.atlas.build import Atlas, overlaps
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.release.images_csv import COLUMNS
from panendofm.atlas.report.document import count_quality
from panendofm.atlas.split import SPLITS, SplitReport
from panendofm.reports import render_text
from panendofm.runtime.yaml_files import parse_yaml

_TYPES = {
    **dict.fromkeys(("group", "content", "width", "height"), "sc:Integer"),
    **dict.fromkeys(("brightness", "washed_out", "sharpness", "mucosa"), "sc:Float"),
}
_FORMATS = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet", "md": "text/markdown"}


def croissant(name: str, version: str, atlas: Atlas, checksums: dict[str, str]) -> Any:
    """`checksums` of the files beside it; images.csv must be among them."""
    text = render_text(
        "panendofm.atlas",
        "croissant.yaml",
        name=name,
        version=version,
        images=len(atlas.rows),
        licenses=_licenses(atlas),
        poor=sum(counts.poor for counts in count_quality(atlas.rows).values()),
        checksums=checksums,
        formats=_FORMATS,
        columns=COLUMNS,
        types=_TYPES,
    )
    return parse_yaml(text, "croissant.yaml")


def datasheet(name: str, atlas: Atlas, split: SplitReport) -> str:
    """The questions of "Datasheets for Datasets", answered from the atlas."""
    rows = atlas.rows
    return render_text(
        "panendofm.atlas",
        "datasheet.md",
        name=name,
        rows=rows,
        images=Counter(row.dataset for row in rows),
        different=len({row.sha256 for row in rows}),
        findings=len({label.finding for row in rows for label in row.labels}),
        with_patient=sum(row.patient is not None for row in rows),
        split=split,
        sides=[f"{split.images[side]} {side}" for side in SPLITS],
        quality=count_quality(rows),
        licenses=_licenses(atlas),
        mappings=load_mappings(),
        overlaps=overlaps(rows),
    )


def _licenses(atlas: Atlas) -> dict[str, str]:
    mappings = load_mappings()
    datasets = sorted({row.dataset for row in atlas.rows})
    return {name: mappings[name].license if name in mappings else "unknown" for name in datasets}
