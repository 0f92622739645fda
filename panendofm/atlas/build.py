"""Datasets on disk → the atlas: one row a picture, labels of the taxonomy, ids, hashes and quality."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from panendofm.atlas.groups import content_groups
from panendofm.atlas.layouts import Found, Item, find_datasets, read_items, why_no_pictures
from panendofm.atlas.mapping import Mapping, load_mappings
from panendofm.atlas.measurements import Measured, measure_all
from panendofm.atlas.taxonomy import Label
from panendofm.imaging.images import UnreadableImageError
from panendofm.runtime.console import track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file
from panendofm.runtime.names import printable
from panendofm.runtime.parquet_files import read_parquet

FORMAT = 1
# A group of alike pictures that holds more than this share is a chain of chance resemblances.
_CHAIN_SHARE, _CHAIN_IMAGES = 0.05, 50


@dataclass(frozen=True)
class Row:
    """A file of the atlas. `content` is the number of its group of equal and nearly equal pictures."""

    path: str
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
    quality: dict[str, float]
    center: str | None = None


@dataclass(frozen=True)
class Atlas:
    """All rows, and what was found out while they were collected."""

    rows: list[Row]
    info: dict[str, Any] = field(default_factory=dict)


def build_atlas(roots: list[str], near_duplicate_bits: int, extra_mappings: Path | None = None) -> Atlas:
    """Read every dataset below the roots. Pictures without a mapped label, or damaged, are counted and left out."""
    mappings = load_mappings(extra_mappings)
    found = find_datasets(roots, mappings)
    notes: dict[str, Any] = {"datasets": {}, "absent": [], "unmapped": {}, "unreadable": []}
    pending: list[tuple[Found, Item, tuple[Label, ...]]] = []
    nothing: list[str] = []
    for dataset in found:
        items, unlabelled = read_items(dataset)
        mapped, unmapped = _harmonise(items, dataset.mapping)
        pending += [(dataset, item, labels) for item, labels in mapped]
        entry = notes["datasets"].setdefault(dataset.mapping.dataset, {"folders": [], "images": 0, "unlabelled": 0})
        entry["folders"].append(str(dataset.source))
        entry["images"] += len(items)
        entry["unlabelled"] += unlabelled
        if not items:
            why = f"{dataset.mapping.dataset}: {dataset.source} gave no picture; {why_no_pictures(dataset)}."
            nothing.append(why)
            warn(why)
        for label, count in unmapped.items():
            notes["unmapped"].setdefault(dataset.mapping.dataset, Counter())[label] += count
    if not pending:
        why = nothing[0] if nothing else "check the folders."
        raise UserError(f"{', '.join(roots)}: not one picture with a mapped label was found; {why}")
    notes["absent"] = sorted(set(mappings) - set(notes["datasets"]))
    rows = _measured_rows(pending, near_duplicate_bits, notes)
    return Atlas(rows, {"format": FORMAT, "near_duplicate_bits": near_duplicate_bits, **notes})


def _harmonise(items: list[Item], mapping: Mapping) -> tuple[list[tuple[Item, tuple[Label, ...]]], Counter[str]]:
    """Labels of the taxonomy for every item; a picture with only unmapped labels is left out."""
    mapped, unmapped = [], Counter[str]()
    for item in items:
        labels: set[Label] = set()
        for own in item.labels:
            meaning = mapping.meaning(own)
            if meaning is None:
                unmapped[own] += 1
            else:
                labels.update(meaning)
        if labels:
            mapped.append((item, tuple(sorted(labels))))
    return mapped, unmapped


def _measured_rows(
    pending: list[tuple[Found, Item, tuple[Label, ...]]], near_duplicate_bits: int, notes: dict[str, Any]
) -> list[Row]:
    paths = [item.path for _, item, _ in pending]
    results = list(track(measure_all(paths), "pictures", len(paths), "images"))
    good: list[tuple[Found, Item, tuple[Label, ...], Measured]] = []
    for (found, item, labels), result in zip(pending, results, strict=True):
        if printable(item.path) != str(item.path):
            warn(f"{printable(item.path)}: its name can't be kept in a table; rename the file.")
            notes["unreadable"].append(printable(item.path))
        elif isinstance(result, UnreadableImageError):
            warn(str(result))
            notes["unreadable"].append(str(item.path))
        else:
            good.append((found, item, labels, result))
    if not good:
        raise UserError(f"cannot read any of the {len(pending)} pictures; the first is {pending[0][1].path}.")
    contents = content_groups([m.sha256 for *_, m in good], [m.perceptual_hash for *_, m in good], near_duplicate_bits)
    largest = int(np.bincount(contents).max())
    if largest > max(_CHAIN_IMAGES, _CHAIN_SHARE * len(good)):
        warn(f"{largest} pictures are alike along a chain and will stay on one side; lower --near-duplicate-bits.")
    return [
        Row(
            str(item.path.resolve()),
            found.mapping.dataset,
            item.labels,
            labels,
            _identifier(found.mapping, item.patient),
            _identifier(found.mapping, item.video),
            measured.sha256,
            int(content),
            measured.perceptual_hash,
            measured.width,
            measured.height,
            asdict(measured.quality),
            item.center,
        )
        for (found, item, labels, measured), content in zip(good, contents, strict=True)
    ]


def _identifier(mapping: Mapping, name: str | None) -> str | None:
    return None if name is None else f"{mapping.ids_of or mapping.dataset}:{name}"


def conflicts(rows: list[Row]) -> dict[tuple[str, str], int]:
    """Files of equal content that are labelled differently: (one label, the other) → number of contents.

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
    """Groups of alike but not equal pictures, from different files, in which two are labelled differently."""
    groups: dict[int, dict[str, tuple[Label, ...]]] = defaultdict(dict)
    for row in rows:
        groups[row.content].setdefault(row.sha256, row.labels)
    return sum(any(contradict(a, b) for a, b in combinations(set(labels.values()), 2)) for labels in groups.values())


def _described(row: Row) -> str:
    return f"{row.dataset} {' + '.join(row.own_labels)}"


def overlaps(rows: list[Row]) -> list[dict[str, Any]]:
    """Pairs of datasets that share pictures: how many contents are byte-identical, and how many groups are alike."""
    result = []
    exact, near = defaultdict(set), defaultdict(set)
    for row in rows:
        exact[row.dataset].add(row.sha256)
        near[row.dataset].add(row.content)
    names = sorted(exact)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            identical, alike = len(exact[a] & exact[b]), len(near[a] & near[b])
            if alike:
                result.append({"a": a, "b": b, "identical_files": identical, "alike_groups": alike})
    return result


def save_atlas(atlas: Atlas, path: Path | str) -> None:
    rows = atlas.rows
    columns: dict[str, Any] = {
        "path": [r.path for r in rows],
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
        **{f"quality_{name}": [r.quality[name] for r in rows] for name in rows[0].quality},
    }
    table = pa.table(columns).replace_schema_metadata({"atlas": json.dumps(atlas.info, sort_keys=True)})
    with atomic_file(path) as stream:
        pq.write_table(table, stream)


def load_atlas(path: Path | str) -> Atlas:
    path = Path(path)
    table = read_parquet(path, "write the atlas anew")
    try:
        info = json.loads((table.schema.metadata or {}).get(b"atlas", b"{}"))
    except (ValueError, RecursionError):
        info = None
    if not isinstance(info, dict) or info.get("format") != FORMAT:
        raise UserError(f"cannot read {path}: it is no atlas of format {FORMAT}; write it with the verb 'atlas'.")
    try:
        return Atlas([_row(record) for record in table.to_pylist()], info)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"cannot read {path}: its columns are not those of an atlas; write it anew.") from error


def _row(record: dict[str, Any]) -> Row:
    quality = {k.removeprefix("quality_"): record.pop(k) for k in list(record) if k.startswith("quality_")}
    if "centre" in record:  # as atlases were written before
        record["center"] = record.pop("centre")
    record["own_labels"] = tuple(record["own_labels"])
    record["labels"] = tuple(Label.parse(text) for text in record["labels"])
    return Row(quality=quality, **record)
