"""Datasets on disk → the atlas: one row per image, labels of the taxonomy, ids, hashes and quality."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.atlas.config import NEAR_DUPLICATE_BITS
from panendofm.atlas.datasets.codes import CodesWithoutMeaning, codes_file
from panendofm.atlas.datasets.layouts import Found, count_codes, find_datasets, read_items, why_no_images
from panendofm.atlas.datasets.mapping import Mapping, load_mappings
from panendofm.atlas.datasets.readers import Item
from panendofm.atlas.measurements import Measured, measure_all
from panendofm.atlas.taxonomy import Label
from panendofm.imaging.frame_filters.config import VerdictConfig
from panendofm.imaging.frame_filters.verdict import ImageQuality
from panendofm.imaging.groups import content_groups
from panendofm.imaging.images import UnreadableImageError
from panendofm.records.documents import as_document, parse_document
from panendofm.runtime.console import track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file, parse_json
from panendofm.runtime.names import printable
from panendofm.runtime.parquet_files import read_parquet

FORMAT = 2
QUALITY_MEASURES = ("brightness", "washed_out", "sharpness", "mucosa")
# A group of alike images that holds more than this share is a chain of chance resemblances.
_CHAIN_SHARE, _CHAIN_IMAGES = 0.05, 50


@dataclass(frozen=True)
class Row:
    """A file of the atlas. `content` is the number of its group of equal and nearly equal images."""

    path: str
    file: str  # below the dataset's folder
    dataset: str
    own_labels: tuple[str, ...]
    labels: tuple[Label, ...]
    patient: str | None
    video: str | None
    sha256: str
    content: int
    perceptual_hash: bytes
    width: int
    height: int
    quality: ImageQuality
    center: str | None = None


@dataclass
class DatasetCounts:
    folders: list[str] = field(default_factory=list)
    images: int = 0
    unlabeled: int = 0


@dataclass
class AtlasInfo:
    """What was found out while an atlas was collected."""

    near_duplicate_bits: int = NEAR_DUPLICATE_BITS
    datasets: dict[str, DatasetCounts] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)  # datasets that are known and were not there
    unmapped: dict[str, dict[str, int]] = field(default_factory=dict)  # dataset, its label, and number of images
    codes: dict[str, CodesWithoutMeaning] = field(default_factory=dict)  # by dataset
    unreadable: list[str] = field(default_factory=list)
    format: int = FORMAT


@dataclass(frozen=True)
class Atlas:
    rows: list[Row]
    info: AtlasInfo = field(default_factory=AtlasInfo)


@dataclass(frozen=True)
class _Mapped:
    """An image whose labels are known."""

    found: Found
    item: Item
    labels: tuple[Label, ...]


def build_atlas(
    roots: list[str],
    near_duplicate_bits: int,
    extra_mappings: Path | None = None,
    codes: dict[str, str] | None = None,
    verdict: VerdictConfig | None = None,
) -> Atlas:
    """Read every dataset below the roots. Images without a mapped label, or damaged, are counted and left out."""
    mappings = load_mappings(extra_mappings)
    info = AtlasInfo(near_duplicate_bits)
    pending: list[_Mapped] = []
    nothing: list[str] = []
    for found in find_datasets(roots, mappings, codes):
        name = found.mapping.dataset
        items, unlabeled = read_items(found)
        mapped, unmapped = _harmonize(items, found)
        pending += mapped
        counts = info.datasets.setdefault(name, DatasetCounts())
        counts.folders.append(str(found.source))
        counts.images += len(items)
        counts.unlabeled += unlabeled
        without = _codes_without_meaning(items, found.mapping)
        if without is not None:
            info.codes[name] = without
        if not items:
            nothing.append(f"{name}: {found.source} gave no image; {why_no_images(found)}.")
        if unmapped:
            known = info.unmapped.setdefault(name, {})
            known.update(Counter(known) + unmapped)
    if not pending:
        why = nothing[0] if nothing else "check the folders."
        raise UserError(f"{', '.join(roots)}: not one image with a mapped label was found; {why}")
    for why in nothing:
        warn(why)
    info.absent = sorted(set(mappings) - set(info.datasets))
    return Atlas(_measured_rows(pending, info, verdict or VerdictConfig()), info)


def _codes_without_meaning(items: list[Item], mapping: Mapping) -> CodesWithoutMeaning | None:
    if mapping.codes is None:
        return None
    images = count_codes(items, mapping)
    missing = [code for code in images if mapping.meaning(code) is None]
    if not missing:
        return None
    return CodesWithoutMeaning(len(missing), sum(images[c] for c in missing), len(images), codes_file(mapping))


def _harmonize(items: list[Item], found: Found) -> tuple[list[_Mapped], Counter[str]]:
    """Labels of the taxonomy for every item; an image with only unmapped labels is left out."""
    mapped = []
    unmapped = Counter[str]()
    for item in items:
        labels: set[Label] = set()
        for own in item.labels:
            meaning = found.mapping.meaning(own)
            if meaning is None:
                unmapped[own] += 1
            else:
                labels.update(meaning)
        if labels:
            mapped.append(_Mapped(found, item, tuple(sorted(labels))))
    return mapped, unmapped


def _measured_rows(pending: list[_Mapped], info: AtlasInfo, verdict: VerdictConfig) -> list[Row]:
    paths = [one.item.path for one in pending]
    good: list[tuple[_Mapped, Measured]] = []
    measured_all = track(measure_all(paths, verdict), "images", len(paths), "images")
    for one, result in zip(pending, measured_all, strict=True):
        path = one.item.path
        if printable(path) != str(path):
            warn(f"{printable(path)}: its name can't be kept in a table; rename the file.")
            info.unreadable.append(printable(path))
        elif isinstance(result, UnreadableImageError):
            warn(str(result))
            info.unreadable.append(str(path))
        else:
            good.append((one, result))
    if not good:
        raise UserError(f"cannot read any of the {len(pending)} images; the first is {paths[0]}.")
    hashes = [measured.perceptual_hash for _, measured in good]
    contents = content_groups([measured.sha256 for _, measured in good], hashes, info.near_duplicate_bits)
    largest = int(np.bincount(contents).max())
    if largest > max(_CHAIN_IMAGES, _CHAIN_SHARE * len(good)):
        warn(f"{largest} images are alike along a chain and will stay on one side; lower near_duplicate_bits.")
    return [
        Row(
            path=str(one.item.path.resolve()),
            file=file_below(one.found.source, one.item.path),
            dataset=one.found.mapping.dataset,
            own_labels=one.item.labels,
            labels=one.labels,
            patient=_identifier(one.found.mapping, one.item.patient),
            video=_identifier(one.found.mapping, one.item.video),
            sha256=measured.sha256,
            content=content,
            perceptual_hash=measured.perceptual_hash,
            width=measured.width,
            height=measured.height,
            quality=measured.quality,
            center=one.item.center,
        )
        for (one, measured), content in zip(good, contents.tolist(), strict=True)
    ]


def file_below(source: Path, path: Path) -> str:
    """The name of a file below the folder of its dataset; the bare name of one that a table lists elsewhere."""
    folder = source if source.is_dir() else source.parent
    return (path.relative_to(folder) if path.is_relative_to(folder) else Path(path.name)).as_posix()


def _identifier(mapping: Mapping, name: str | None) -> str | None:
    return None if name is None else f"{mapping.ids_of or mapping.dataset}:{name}"


def conflicts(rows: list[Row]) -> dict[tuple[str, str], int]:
    """Files of equal content that are labeled differently: (one label, the other) → number of contents.

    Two rows contradict when neither names all that the other does, or when they give one finding two grades.
    """
    by_content = defaultdict(list)
    for row in rows:
        by_content[row.sha256].append(row)
    counts: Counter[tuple[str, str]] = Counter()
    for same in by_content.values():
        pairs = {
            (_described(a), _described(b))
            for i, a in enumerate(same)
            for b in same[i + 1 :]
            if contradict(a.labels, b.labels)
        }
        counts.update({(min(pair), max(pair)) for pair in pairs})
    return dict(sorted(counts.items()))


def contradict(a: tuple[Label, ...], b: tuple[Label, ...]) -> bool:
    findings_a, findings_b = {x.finding for x in a}, {x.finding for x in b}
    if not (findings_a <= findings_b or findings_b <= findings_a):
        return True
    grades_a, grades_b = {x.finding: x.grade for x in a if x.grade}, {x.finding: x.grade for x in b if x.grade}
    return any(grades_b.get(finding, grade) != grade for finding, grade in grades_a.items())


def alike_conflicts(rows: list[Row]) -> int:
    """Groups of alike but not equal images, from different files, in which two are labeled differently."""
    groups: dict[int, dict[str, tuple[Label, ...]]] = defaultdict(dict)
    for row in rows:
        groups[row.content].setdefault(row.sha256, row.labels)
    return sum(any(contradict(a, b) for a, b in combinations(set(labels.values()), 2)) for labels in groups.values())


def _described(row: Row) -> str:
    return f"{row.dataset} {' + '.join(row.own_labels)}"


@dataclass(frozen=True)
class SharedImages:
    """Two datasets that share images: byte-identical files, and groups of near-duplicates."""

    a: str
    b: str
    identical_files: int
    alike_groups: int


def overlaps(rows: list[Row]) -> list[SharedImages]:
    exact = defaultdict(set)
    near = defaultdict(set)
    for row in rows:
        exact[row.dataset].add(row.sha256)
        near[row.dataset].add(row.content)
    pairs = [
        SharedImages(a, b, len(exact[a] & exact[b]), len(near[a] & near[b])) for a, b in combinations(sorted(exact), 2)
    ]
    return [pair for pair in pairs if pair.alike_groups]


def save_atlas(atlas: Atlas, path: Path | str) -> None:
    rows = atlas.rows
    columns: dict[str, Any] = {
        "path": [r.path for r in rows],
        "file": [r.file for r in rows],
        "dataset": [r.dataset for r in rows],
        "own_labels": [list(r.own_labels) for r in rows],
        "labels": [[str(label) for label in r.labels] for r in rows],
        "patient": pa.array([r.patient for r in rows], pa.string()),
        "video": pa.array([r.video for r in rows], pa.string()),
        "sha256": [r.sha256 for r in rows],
        "content": [r.content for r in rows],
        "perceptual_hash": pa.array([r.perceptual_hash for r in rows], pa.binary()),
        "width": [r.width for r in rows],
        "height": [r.height for r in rows],
        "center": pa.array([r.center for r in rows], pa.string()),
        **{f"quality_{name}": [getattr(r.quality, name) for r in rows] for name in QUALITY_MEASURES},
        "quality_reasons": pa.array([list(r.quality.reasons) for r in rows], pa.list_(pa.string())),
    }
    table = pa.table(columns).replace_schema_metadata({"atlas": json.dumps(as_document(atlas.info), sort_keys=True)})
    with atomic_file(path) as stream:
        pq.write_table(table, stream)


def load_atlas(path: Path | str) -> Atlas:
    path = Path(path)
    table = read_parquet(path, "write the atlas anew")
    text = (table.schema.metadata or {}).get(b"atlas", b"{}").decode(errors="replace")
    info = parse_document(AtlasInfo, parse_json(text, path), path, "an atlas; write it with the verb 'atlas'")
    if info.format != FORMAT:
        raise UserError(f"cannot read {path}: it is no atlas of format {FORMAT}; write it with the verb 'atlas'.")
    try:
        return Atlas([_row(record) for record in table.to_pylist()], info)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}: its columns are not those of an atlas; write it anew.") from error


def _row(record: dict[str, Any]) -> Row:
    measures = {name: float(record.pop(f"quality_{name}")) for name in QUALITY_MEASURES}
    record["quality"] = ImageQuality(**measures, reasons=tuple(record.pop("quality_reasons")))
    record["own_labels"] = tuple(record["own_labels"])
    record["labels"] = tuple(Label.parse(text) for text in record["labels"])
    return Row(**record)
