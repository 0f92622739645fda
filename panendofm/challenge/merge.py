"""The verb `merge`: several doctors' annotations → candidates → gold, by rules and reviews, in an append-only log.

Independent acts of a frame are merged once; the result is a `cross` row. Where the doctors disagree the row asks for
arbitration. Merged and arbitrated candidates become gold by a review row, and only by that.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from panendofm.challenge.annotate.acts import acts_of, read_exports
from panendofm.challenge.config import MergeConfig
from panendofm.challenge.files.annotations import COLUMNS, Act, Log, append, read_log
from panendofm.challenge.files.names import Key
from panendofm.challenge.files.traits import TRAIT_COLUMNS
from panendofm.challenge.shown import items_of, plain_text
from panendofm.challenge.waiting import next_step
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text, exact
from panendofm.runtime.files import make_directory, sha256_of, write_text
from panendofm.scoring.statistics.consensus import (
    box_consensus,
    cohen_kappa,
    fleiss_kappa,
    label_consensus,
    mean_pairwise_iou,
    same_objects,
)
from panendofm.scoring.statistics.estimates import defined

MERGER = "merge"


@dataclass(frozen=True)
class Agreement:
    """κ of the doctors' labels and the mean overlap of their boxes, over what was annotated independently."""

    annotators: int
    labeled_by_all: int
    kappa: float | None
    objects_with_several_boxes: int
    mean_iou_of_boxes: float | None


@dataclass(frozen=True)
class GoldDocument:
    """gold.json: what was made of which log, and what waits for whom."""

    log_sha256: str
    acts: int
    merged_now: int
    gold: int
    waiting: dict[str, int]
    agreement: Agreement
    warnings: list[str]
    format: Literal[2] = 2


def read_gold(path: Path) -> GoldDocument:
    return read_document(GoldDocument, path, "a gold.json that 'challenge merge' wrote")


def merge(path: Path, config: MergeConfig) -> GoldDocument:
    """Append what exports hold and the merges that are due, compute gold.csv, and say what waits for whom."""
    out = Path(config.out)
    date = config.date or datetime.now(UTC).date().isoformat()
    if config.exports:
        _add_exports(path, config, date)
    log = read_log(path)
    new = merges_due(log, date)
    if new:
        append(log, new)
        log = read_log(path)
    gold, waiting, warnings = gold_of(log)
    document = GoldDocument(
        log_sha256=sha256_of(log.path),
        acts=len(log.acts),
        merged_now=len(new),
        gold=len(gold),
        waiting=waiting,
        agreement=agreement(log),
        warnings=warnings,
    )
    make_directory(out)
    write_text(out / "gold.csv", _gold_table(gold, log, out))
    write_document(out / "gold.json", document)
    table("waiting for", ["step", "objects"], [[step, str(count)] for step, count in waiting.items()])
    for name, value in items_of(document.agreement).items():
        say(f"{name}: {plain_text(value)}")
    for warning in warnings:
        warn(warning)
    say(f"{len(new)} merged now, {len(gold)} gold → {out / 'gold.csv'}; log checksum {document.log_sha256[:16]}")
    return document


def _add_exports(path: Path, config: MergeConfig, date: str) -> None:
    """Into the log, which is begun if there is none."""
    images = read_exports(Path(export) for export in config.exports)
    if not path.exists():
        write_text(path, csv_text(COLUMNS, []))
    log = read_log(path, may_be_empty=True)
    new = acts_of(log, images, config.step, config.annotator, date)
    if new:
        append(log, new)
    say(f"{len(images)} annotated images in {len(config.exports)} exports: {len(new)} new acts ({config.step})")


def _gold_table(gold: Sequence[Act], log: Log, out: Path) -> str:
    """In the form that `score truth=…` reads: boxes, masks, or labels where neither was drawn.

    With what the log says of devices, hospitals and patients, from which subgroups are made.
    """
    traits = [name for name in TRAIT_COLUMNS if name in log.header]
    stated = [[act.optional[log.header.index(name) - len(COLUMNS)] for name in traits] for act in gold]
    if any(act.mask for act in gold):
        places = [[os.path.relpath(log.path.parent / act.mask, out) if act.mask else ""] for act in gold]
        columns = ["category", "mask"]
    elif any(act.box for act in gold):
        places = [[""] * 4 if act.box is None else [exact(v) for v in act.box] for act in gold]
        columns = ["category", *"xywh"]
    else:
        places = [[] for _ in gold]
        columns = ["label"]
    rows = [
        [act.file, act.frame, act.category, *place, *own] for act, place, own in zip(gold, places, stated, strict=True)
    ]
    return csv_text(("file", "frame", *columns, *traits), rows)


def _independent(log: Log, without: Collection[str] = ()) -> Iterable[list[Act]]:
    """What doctors did on their own, frame by frame."""
    frames: dict[Key, list[Act]] = defaultdict(list)
    for act in log.acts:
        if act.step == "independent" and act.serial not in without:
            frames[act.key].append(act)
    return frames.values()


def merges_due(log: Log, date: str) -> list[Act]:
    """A `cross` row for every object of every frame whose independent acts are not merged yet."""
    taken = {act.serial for act in log.acts}
    # Acts that no later one has used: after «back» a doctor's new act starts a new round.
    used = {source for act in log.acts for source in act.sources}
    new: list[Act] = []
    for acts in _independent(log, without=used):
        # Masks are drawn and reviewed by the doctors themselves: nobody averages outlines.
        if any(act.mask for act in acts):
            continue
        for group in _objects(acts):
            serial = _next_serial(taken)
            taken.add(serial)
            new.append(_merged(group, serial, date))
    return new


def _next_serial(taken: set[str]) -> str:
    number = len(taken) + 1
    while f"m{number}" in taken:
        number += 1
    return f"m{number}"


def _objects(acts: Sequence[Act]) -> list[list[Act]]:
    """Acts about one thing: boxes of a category that overlap; all acts without a box are labels of the frame."""
    groups: list[list[Act]] = []
    labels = [act for act in acts if act.box is None]
    if labels:
        groups.append(labels)
    for category in sorted({act.category for act in acts if act.box is not None}):
        boxed = [act for act in acts if act.box is not None and act.category == category]
        doctors = list(dict.fromkeys(act.annotator for act in boxed))
        of_doctor = [[act for act in boxed if act.annotator == doctor] for doctor in doctors]
        for members in same_objects([[list(act.box or ()) for act in own] for own in of_doctor]):
            groups.append([of_doctor[doctor][number] for doctor, number in members])
    return groups


def _merged(group: Sequence[Act], serial: str, date: str) -> Act:
    first = group[0]
    sources = tuple(act.serial for act in group)
    box = None
    category = first.category
    if first.box is not None:
        found = box_consensus([list(act.box or ()) for act in group])
        how = "average"
        box = found.box
        agreed = box is not None
        # Those that were averaged come first.
        order = [*found.merged, *(i for i in range(len(group)) if i not in found.merged)]
        sources = tuple(group[i].serial for i in order)
    else:
        label = label_consensus([act.category for act in group])
        how = "majority"
        agreed = label is not None
        category = label or ""
    return replace(
        first,
        serial=serial,
        category=category,
        box=box,
        step="cross",
        annotator=MERGER,
        sources=sources,
        merge=how if agreed else "",
        decision="" if agreed else "arbitrate",
        date=date,
    )


def gold_of(log: Log) -> tuple[list[Act], dict[str, int], list[str]]:
    """What reviews made gold, how many objects wait for which step, and reviews that are not independent."""
    by_serial = {act.serial: act for act in log.acts}
    used = {source for act in log.acts for source in act.sources}
    gold: dict[str, Act] = {}
    warnings = []
    waiting = {"merge": 0, "arbitration": 0, "review": 0, "annotation": 0}
    for act in log.acts:
        if act.step == "review":
            for source in act.sources:
                if act.decision == "gold":
                    gold[source] = by_serial[source]
                elif act.serial not in used:
                    waiting["annotation"] += 1
                if _annotators(by_serial[source], by_serial) == {act.annotator}:
                    warnings.append(f"line {act.line}: {act.annotator} reviews what {act.annotator} alone annotated.")
        elif act.serial not in used:
            waiting[next_step(act)] += 1
    return list(gold.values()), waiting, warnings


def _annotators(act: Act, by_serial: dict[str, Act]) -> set[str]:
    """The doctors behind a candidate, through all its sources."""
    own = set() if act.annotator == MERGER else {act.annotator}
    return own.union(*(_annotators(by_serial[source], by_serial) for source in act.sources))


def agreement(log: Log) -> Agreement:
    labels: list[dict[str, str]] = []
    ious: list[float] = []
    for acts in _independent(log):
        for group in _objects(acts):
            if group[0].box is None:
                labels.append({act.annotator: act.category for act in group})
            elif len(group) > 1:
                ious.append(mean_pairwise_iou([list(act.box or ()) for act in group]))
    doctors = sorted({name for row in labels for name in row})
    complete = [row for row in labels if len(row) == len(doctors)]
    kappa: float | None = None
    if len(doctors) == 2 and complete:
        kappa = cohen_kappa(*([row[d] for row in complete] for d in doctors))
    elif len(doctors) > 2 and complete:
        names = sorted({name for row in complete for name in row.values()})
        kappa = fleiss_kappa([[list(row.values()).count(name) for name in names] for row in complete])
    return Agreement(
        annotators=len({act.annotator for act in log.acts if act.step == "independent"}),
        labeled_by_all=len(complete),
        kappa=None if kappa is None else defined(kappa),
        objects_with_several_boxes=len(ious),
        mean_iou_of_boxes=float(np.mean(ious)) if ious else None,
    )
