"""Images that questions can be made from: rows of an atlas, their regions, and annotations of operations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

from panendofm.atlas import Label, Region, Regions, Row, contradict, load_atlas, load_mappings, read_regions
from panendofm.imaging.groups import linked_groups
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_lines, sha256_of
from panendofm.vqa.bench.images.annotation import Annotation
from panendofm.vqa.bench.operations.source import source_of

# The annotator whose regions several people agreed on.
CONSENSUS = "consensus"
_ANNOTATIONS = {"file", "operation", "phase", "step", "action", "instruments"}


@dataclass(frozen=True)
class SourceImage:
    """One content of the atlas: equal files are one image."""

    sha256: str
    path: Path
    datasets: tuple[str, ...]
    labels: tuple[Label, ...]
    own_labels: tuple[str, ...]
    group: str
    regions: tuple[Region, ...] = ()
    all_marked: bool = False  # its masks show every finding of their kind
    annotation: Annotation | None = None

    @property
    def source(self) -> str:
        """The file's name without its folders, which nobody else has."""
        return self.path.name

    def findings(self, category: str) -> list[str]:
        return sorted({label.finding for label in self.labels if label.category == category})


@dataclass
class Sources:
    images: list[SourceImage]
    left_out: Counter[str] = field(default_factory=Counter)


def read_sources(
    atlas: Path,
    regions: Path | None,
    annotations: Path | None,
    all_regions_listed: bool = False,
    operation_folders: Sequence[Path] = (),
) -> Sources:
    """All images of the atlas that don't contradict themselves, and frames of operations."""
    rows = load_atlas(atlas).rows
    missing = [row for row in rows if not Path(row.path).is_file()]
    left_out = Counter({"file is missing": len(missing)}) if missing else Counter[str]()
    rows = [row for row in rows if Path(row.path).is_file()]
    if not rows:
        raise UserError(f"{atlas}: not one of its files is there; write the atlas anew where the datasets are.")
    known = read_regions(rows, regions)
    if all_regions_listed:
        known.complete |= set(known.of)
    left_out.update({f"region: {reason}": count for reason, count in known.problems.items()})
    operations = _read_annotations(annotations) if annotations else {}
    names = _group_names(rows)
    by_content: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_content[row.sha256].append(row)
    images = []
    for sha256, same in sorted(by_content.items()):
        if any(contradict(a.labels, b.labels) for a, b in combinations(same, 2)):
            left_out["equal files are labeled differently"] += 1
            continue
        images.append(_image(sha256, same, names[sha256], known, operations))
    there = {image.sha256 for image in images}
    for folder in operation_folders:
        images += [image for image in _moments(folder) if image.sha256 not in there]
    return Sources(images, left_out)


def _moments(folder: Path) -> list[SourceImage]:
    """The frames of a dataset of operations; those of one video are a group."""
    source = source_of(folder)
    found: dict[str, SourceImage] = {}
    for moment in source.read(folder):
        digest = sha256_of(moment.path)
        found[digest] = SourceImage(
            sha256=digest,
            path=moment.path,
            datasets=(source.name,),
            labels=(),
            own_labels=(),
            group=f"{source.name} {moment.video}",
            regions=moment.regions,
            annotation=moment.annotation,
        )
    if not found:
        raise UserError(
            f"operations: {folder} holds no annotated frame; docs/how-to/vqa.md says how {source.title} must lie."
        )
    return [found[digest] for digest in sorted(found)]


def with_one_annotator(image: SourceImage) -> SourceImage:
    """The regions that one person marked, where several marked the same: the consensus, or the first name's."""
    names = sorted({region.annotator for region in image.regions} - {""})
    if len(names) < 2:
        return image
    chosen = CONSENSUS if CONSENSUS in names else names[0]
    return replace(image, regions=tuple(r for r in image.regions if r.annotator in ("", chosen)))


def _image(sha256: str, same: list[Row], group: str, known: Regions, operations: dict[str, Annotation]) -> SourceImage:
    first = min(same, key=lambda row: row.path)
    return SourceImage(
        sha256=sha256,
        path=Path(first.path),
        datasets=tuple(sorted({row.dataset for row in same})),
        labels=tuple(sorted({label for row in same for label in row.labels})),
        own_labels=tuple(sorted({label for row in same for label in row.own_labels})),
        group=group,
        regions=tuple(known.of.get(sha256, ())),
        all_marked=sha256 in known.complete and not _one_an_image(same),
        annotation=next((operations[row.path] for row in same if row.path in operations), None),
    )


def _one_an_image(rows: Sequence[Row]) -> bool:
    mappings = load_mappings()
    return any(row.dataset in mappings and mappings[row.dataset].regions.get("one_per_image") for row in rows)


def _group_names(rows: Sequence[Row]) -> dict[str, str]:
    """A name for the group of each content: patient, video and near-duplicates hang together along chains.

    The smallest checksum of the group names it, so that the order of rows doesn't matter.
    """
    links: list[list[Any]] = [
        [("content", row.content), ("sha256", row.sha256)]
        + [("patient", row.patient)] * (row.patient is not None)
        + [("video", row.video)] * (row.video is not None)
        for row in rows
    ]
    numbers = linked_groups(links)
    smallest: dict[int, str] = {}
    for row, number in zip(rows, numbers, strict=True):
        smallest[int(number)] = min(row.sha256, smallest.get(int(number), row.sha256))
    return {row.sha256: f"g{smallest[int(number)][:12]}" for row, number in zip(rows, numbers, strict=True)}


def _read_annotations(path: Path) -> dict[str, Annotation]:
    """A JSONL of operations: file (relative to the list), operation, phase, step, action, instruments."""
    found = {}
    for number, line in enumerate(read_json_lines(path), 1):
        if not isinstance(line, dict) or "file" not in line or not set(line) <= _ANNOTATIONS:
            raise UserError(f"{path}, line {number}: a line has file and some of {', '.join(sorted(_ANNOTATIONS))}.")
        instruments = line.get("instruments")
        found[str((path.parent / line["file"]).resolve())] = Annotation(
            operation=str(line.get("operation", "")),
            phase=str(line.get("phase", "")),
            step=str(line.get("step", "")),
            action=str(line.get("action", "")),
            instruments=None if instruments is None else tuple(sorted(map(str, instruments))),
        )
    return found
