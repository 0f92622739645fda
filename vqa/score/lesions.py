"""GI-Bench's figures: where, box, diagnosis and texts, for models, readers and groups of readers alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scoring.choices import class_f1, published_site_f1
from scoring.intervals import group_weights, percentile_interval
from scoring.localisation import (
    BOX_STATUSES,
    BoxReply,
    check_conventions,
    iou_best_match,
    iou_first,
    read_boxes,
    recall_at,
    recall_curve,
)
from scoring.replies import STATUSES
from vqa.bench.items import Bench, Item
from vqa.bench.lesions import NEGATIVE
from vqa.client.answers import AnswerSet
from vqa.client.prompts import Variant
from vqa.people.ratings import answer_key
from vqa.score.verdicts import Verdict, verdict_of

Floats = NDArray[np.float64]
# What is compared between contestants, class by class: question, value of one picture.
COLUMNS = ("q1", "q2", "q3", "q4", "q5")


@dataclass
class Sheet:
    """What one contestant did: verdicts, boxes and ratings by the picture's checksum."""

    name: str
    kind: str
    q1: dict[str, Verdict] = field(default_factory=dict)
    q3: dict[str, Verdict] = field(default_factory=dict)
    q2: dict[str, BoxReply] = field(default_factory=dict)
    replies: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # task → picture → text
    ratings: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))  # task → picture → mean
    keys: dict[str, tuple[str, str]] = field(default_factory=dict)  # key of a text → (task, picture)
    convention: str = "pixel"

    def value(self, column: str, item: Item) -> float | None:
        """The picture's value in a column: right or wrong, overlap, mean rating; None: not rated."""
        sha256 = item.sha256
        if column in ("q1", "q3"):
            return float((self.q1 if column == "q1" else self.q3)[sha256].right)
        if column == "q2":
            return iou_first([r.box for r in item.regions], self.q2[sha256].boxes)
        return self.ratings[column].get(sha256)


def sheet_of(bench: Bench, answers: AnswerSet, mode: str) -> Sheet:
    """Read all replies; what is missing counts as an error, and so as wrong."""
    sheet = Sheet(answers.name, answers.run.get("kind", "model"))
    sheet.convention = answers.run.get("box_convention", "pixel")
    prompt = next(iter(answers.answers))[1].prompt
    for item in bench.items:
        answer = answers.answers.get((item.id, Variant(prompt=prompt)))
        if item.kind == "choice":
            (sheet.q1 if item.task == "Q1" else sheet.q3)[item.sha256] = verdict_of(item, answer, mode)
            continue
        reply = "" if answer is None or answer.error is not None else answer.response
        sheet.replies[item.task][item.sha256] = reply
        if item.kind == "box":
            if answer is None or answer.error is not None:
                sheet.q2[item.sha256] = BoxReply("error")
            elif answer.finish_reason == "content_filter" and not reply:
                sheet.q2[item.sha256] = BoxReply("refused")
            else:
                finished = answer.finish_reason != "length"
                sheet.q2[item.sha256] = read_boxes(reply, (item.width, item.height), sheet.convention, finished)
        elif answer is not None:
            sheet.keys[answer_key(answers.name, answer)] = (item.task.lower(), item.sha256)
    return sheet


@dataclass(frozen=True)
class Columns:
    """The questions that are scored, by column, lesions apart from pictures without one."""

    lesions: dict[str, list[Item]]
    negatives: list[Item]  # box questions of pictures without a lesion


def columns_of(items: Iterable[Item]) -> Columns:
    lesions: dict[str, list[Item]] = defaultdict(list)
    negatives = []
    for item in items:
        if item.entity != NEGATIVE:
            lesions[item.task.lower()].append(item)
        elif item.task == "Q2":
            negatives.append(item)
    return Columns(lesions, negatives)


def class_values(sheet: Sheet, items: Sequence[Item], column: str) -> dict[str, float]:
    """Mean value of each class; a picture that wasn't rated doesn't count."""
    by_class: dict[str, list[float]] = defaultdict(list)
    for item in items:
        value = sheet.value(column, item)
        if value is not None:
            by_class[item.entity].append(value)
    return {name: float(np.mean(values)) for name, values in by_class.items()}


def contestant_figures(bench: Bench, sheet: Sheet, columns: Columns, draws: int) -> dict[str, Any]:
    """Every figure of one contestant on the given questions."""
    figures: dict[str, Any] = {"name": sheet.name, "kind": sheet.kind, "by_class": {}}
    for column in COLUMNS:
        items = columns.lesions.get(column, [])
        values = class_values(sheet, items, column)
        if not values:
            continue
        figures["by_class"][column] = values
        over_pictures = column in (
            "q2",
            "q4",
            "q5",
        )  # overlap and ratings are means over pictures, choices over classes
        figures[column] = _with_interval(sheet, items, column, over_pictures, draws)
    figures |= _sites(bench, sheet, columns) | _diagnoses(sheet, columns) | _boxes(sheet, columns, draws)
    figures["statuses"] = _statuses(sheet, columns)
    figures["answer_rate"] = _answer_rate(figures["statuses"])
    figures["chain"] = _chain(sheet, columns)
    return figures


def _with_interval(sheet: Sheet, items: Sequence[Item], column: str, over_pictures: bool, draws: int) -> dict[str, Any]:
    rated = [(item, value) for item in items if (value := sheet.value(column, item)) is not None]
    values = np.array([value for _, value in rated])
    classes = np.unique([item.entity for item, _ in rated], return_inverse=True)[1]
    mean = float(values.mean()) if over_pictures else macro(values, classes)
    interval = None
    if draws:
        groups = np.unique([item.group for item, _ in rated], return_inverse=True)[1].astype(np.int64)
        weights = group_weights(groups, draws, 0)
        drawn = np.array([_weighted(values, classes, row, over_pictures) for row in weights])
        interval = percentile_interval(drawn)
    return {"n": len(rated), "classes": len(set(classes.tolist())), "mean": mean, "interval": _pair(interval)}


def macro(values: Floats, classes: NDArray[np.int64]) -> float:
    return float(np.mean(np.bincount(classes, weights=values) / np.bincount(classes)))


def _weighted(values: Floats, classes: NDArray[np.int64], weights: Floats, over_pictures: bool) -> float:
    if over_pictures:
        return float(values @ weights / weights.sum()) if weights.sum() else float("nan")
    counts = np.bincount(classes, weights=weights)
    sums = np.bincount(classes, weights=weights * values)
    return float(np.mean(sums[counts > 0] / counts[counts > 0]))


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [interval[0], interval[1]]


def _sites(bench: Bench, sheet: Sheet, columns: Columns) -> dict[str, Any]:
    items = columns.lesions.get("q1", [])
    if not items:
        return {}
    chosen = [sheet.q1[item.sha256].chosen for item in items]
    gold = [item.answer for item in items]
    site_of = {item.entity: item.answer for item in items}
    lesions = [item.entity for item in items]
    published = published_site_f1(lesions, site_of, chosen)
    ceiling = published_site_f1(lesions, site_of, list(gold))
    return {
        "q1_region_macro_f1": float(np.mean(list(class_f1(gold, chosen).values()))),
        "q1_f1_published": float(np.mean(list(published.values()))),
        "q1_f1_published_ceiling": float(np.mean(list(ceiling.values()))),
    }


def _diagnoses(sheet: Sheet, columns: Columns) -> dict[str, Any]:
    items = columns.lesions.get("q3", [])
    if not items:
        return {}
    chosen = [_named(sheet.q3[item.sha256].chosen, item) for item in items]
    f1 = class_f1([item.entity for item in items], chosen)
    return {"q3_macro_f1": float(np.mean(list(f1.values()))), "q3_f1_by_class": f1}


def _named(letter: str | None, item: Item) -> str | None:
    return None if letter is None else item.options[ord(letter) - ord("A")]


def _boxes(sheet: Sheet, columns: Columns, draws: int) -> dict[str, Any]:
    items = columns.lesions.get("q2", [])
    if not items:
        return {}
    truths = [[list(r.box) for r in item.regions] for item in items]
    replies = [sheet.q2[item.sha256] for item in items]
    first = np.array([iou_first(t, r.boxes) for t, r in zip(truths, replies, strict=True)])
    best = np.array([iou_best_match(t, r.boxes) for t, r in zip(truths, replies, strict=True)])
    valid = np.array([r.status == "ok" for r in replies])
    groups = np.unique([item.group for item in items], return_inverse=True)[1].astype(np.int64)
    texts = [sheet.replies["Q2"].get(item.sha256, "") for item in items]
    sizes = [(item.width, item.height) for item in items]
    check = check_conventions(texts, truths, sizes, sheet.convention, group_weights(groups, draws or 200, 0))
    result = {
        "q2_miou": float(first.mean()),
        "q2_miou_best_match": float(best.mean()),
        "q2_miou_over_valid": float(first[valid].mean()) if valid.any() else None,
        "q2_valid_rate": float(valid.mean()),
        "q2_boxes_per_reply": float(np.mean([len(r.boxes) for r in replies])),
        "q2_recall_0_5": recall_at(first, 0.5),
        "q2_recall_0_75": recall_at(first, 0.75),
        "q2_recall_curve": {f"{t:.2f}": share for t, share in recall_curve(first).items()},
        "q2_by_convention": check.mean_iou,
        "q2_looks_like": check.better,
    }
    if columns.negatives:
        rejected = [sheet.q2[item.sha256].status == "none" for item in columns.negatives]
        result |= {"specificity": float(np.mean(rejected)), "pictures_without_lesion": len(rejected)}
    return result


def _statuses(sheet: Sheet, columns: Columns) -> dict[str, dict[str, int]]:
    """How the replies could be read; each question's counts add up to its pictures."""
    result: dict[str, dict[str, int]] = {}
    for column in ("q1", "q3"):
        verdicts = sheet.q1 if column == "q1" else sheet.q3
        counts = Counter(verdicts[item.sha256].status for item in columns.lesions.get(column, []))
        result[column] = {status: counts.get(status, 0) for status in STATUSES}
    boxes = Counter(sheet.q2[item.sha256].status for item in columns.lesions.get("q2", []))
    result["q2"] = {status: boxes.get(status, 0) for status in BOX_STATUSES}
    return result


def _answer_rate(statuses: dict[str, dict[str, int]]) -> dict[str, float]:
    answered = ("ok", "none", "invalid_option", "invalid_box")
    return {
        column: sum(counts.get(status, 0) for status in answered) / total
        for column, counts in statuses.items()
        if (total := sum(counts.values()))
    }


def _chain(sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """Where errors begin: the diagnosis when the site was right, and when the lesion was found too."""
    boxes = {item.sha256: item for item in columns.lesions.get("q2", [])}
    q3 = [item for item in columns.lesions.get("q3", []) if item.sha256 in sheet.q1]
    site_right = [item for item in q3 if sheet.q1[item.sha256].right]
    found = [
        item for item in site_right if item.sha256 in boxes and (sheet.value("q2", boxes[item.sha256]) or 0.0) >= 0.5
    ]

    def share(items: Sequence[Item]) -> float | None:
        return float(np.mean([sheet.q3[item.sha256].right for item in items])) if items else None

    return {
        "q3_right": share(q3),
        "q3_right_given_q1_right": share(site_right),
        "q3_right_given_q1_right_and_found": share(found),
        "n": [len(q3), len(site_right), len(found)],
    }
