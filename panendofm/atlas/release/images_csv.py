"""images.csv of a release: one line an image, without a local path, exact enough to give the same atlas again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from panendofm.atlas.build import QUALITY_MEASURES, Row
from panendofm.atlas.datasets.mapping import load_mappings
from panendofm.atlas.taxonomy import Label
from panendofm.imaging.frame_filters.verdict import ImageQuality
from panendofm.runtime.csv_files import csv_text, exact, read_csv, unescaped
from panendofm.runtime.errors import UserError

# Names, and what they mean to a reader of the metadata.
COLUMNS = {
    "dataset": "The source dataset.",
    "file": "Name of the image below the folder of its dataset.",
    "sha256": "Checksum of the file.",
    "labels": "Labels of the taxonomy (region/category/finding/grade/synonym), parted by |.",
    "own_labels": "Labels of the source dataset, parted by |.",
    "split": "train, validation or test.",
    "group": "Number of the group that stays on one side of the split.",
    "patient": "Patient or case, as the source dataset names it; empty where it does not.",
    "video": "Video or sequence, as the source dataset names it.",
    "center": "Center, as the source dataset names it.",
    "content": "Number of the group of equal and nearly equal images.",
    "perceptual_hash": "256-bit perceptual hash of the field of view, in hexadecimal digits.",
    "width": "Width in pixels.",
    "height": "Height in pixels.",
    "brightness": "Mean gray value inside the field of view, 0 to 255.",
    "washed_out": "Share of overexposed pixels inside the field of view.",
    "sharpness": "How often steeper the edges are than after more blur.",
    "mucosa": "Share of the field of view that is neither dark nor overexposed.",
    "quality_reasons": "Why the image is poor, parted by |; empty: it is good.",
    "license": "License of the source dataset.",
}


def images_csv(rows: Sequence[Row], sides: dict[str, tuple[str, int]]) -> str:
    """`sides`: split and group by checksum."""
    mappings = load_mappings()
    lines = []
    for row in sorted(rows, key=lambda row: (row.dataset, row.file, row.sha256)):
        split, group = sides[row.sha256]
        mapping = mappings.get(row.dataset)
        lines.append(
            [
                row.dataset,
                row.file,
                row.sha256,
                "|".join(str(label) for label in row.labels),
                "|".join(row.own_labels),
                split,
                group,
                row.patient or "",
                row.video or "",
                row.center or "",
                row.content,
                row.perceptual_hash.hex(),
                row.width,
                row.height,
                *(exact(getattr(row.quality, name)) for name in QUALITY_MEASURES),
                "|".join(row.quality.reasons),
                "unknown" if mapping is None else mapping.license,
            ]
        )
    return csv_text(list(COLUMNS), lines)


def read_images_csv(path: Path) -> list[Row]:
    """The rows without their paths."""
    rows = []
    for number, line in enumerate(read_csv(path, list(COLUMNS)), start=2):
        cells = {name: unescaped(cell) for name, cell in line.items()}
        try:
            measures = {name: float(cells[name]) for name in QUALITY_MEASURES}
            rows.append(
                Row(
                    path="",
                    file=cells["file"],
                    dataset=cells["dataset"],
                    own_labels=_parts(cells["own_labels"]),
                    labels=tuple(Label.parse(text) for text in _parts(cells["labels"])),
                    patient=cells["patient"] or None,
                    video=cells["video"] or None,
                    sha256=cells["sha256"],
                    content=int(cells["content"]),
                    perceptual_hash=bytes.fromhex(cells["perceptual_hash"]),
                    width=int(cells["width"]),
                    height=int(cells["height"]),
                    quality=ImageQuality(**measures, reasons=_parts(cells["quality_reasons"])),
                    center=cells["center"] or None,
                )
            )
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}, line {number}: a cell can't be read ({error}); take the file anew.") from error
    return rows


def _parts(cell: str) -> tuple[str, ...]:
    return tuple(part for part in cell.split("|") if part)
