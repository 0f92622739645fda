"""GI-Bench's figures: where, box, diagnosis and texts, for models, readers and groups of readers alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from panendofm.scoring.answers.choices import class_f1, published_site_f1
from panendofm.scoring.answers.localization import BOX_STATUSES
from panendofm.scoring.answers.replies import STATUSES
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.people.ratings import without_disclaimer
from panendofm.vqa.score.gi_bench.boxes import box_figures
from panendofm.vqa.score.gi_bench.estimates import COLUMNS, FIGURES, Columns, class_values, estimate
from panendofm.vqa.score.gi_bench.sheets import Sheet


def contestant_figures(bench: Bench, sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """Every figure of one contestant on the given questions."""
    figures: dict[str, Any] = {"name": sheet.name, "kind": sheet.kind, "by_class": {}, "by_site": {}, "intervals": {}}
    for name in FIGURES:
        found = estimate(sheet, name, columns)
        if found is None:
            continue
        figures["intervals"][name] = found.interval
        if name in COLUMNS:
            figures["by_class"][name] = class_values(sheet, name, columns)
            figures["by_site"][name] = class_values(sheet, name, columns, "scene")
            figures[name] = {
                "n": found.n, "classes": found.classes, "mean": found.value, "interval": found.interval
            }  # fmt: skip
        else:
            figures[name] = found.value
    figures |= _sites(sheet, columns) | box_figures(sheet, columns)
    if "q3" in figures:
        figures["q3_f1_by_class"] = diagnosis_f1(sheet, columns)
    figures["statuses"] = _statuses(sheet, columns)
    figures["answer_rate"] = _answer_rate(figures["statuses"])
    figures["chain"] = _chain(sheet, columns)
    figures["texts"] = text_lengths(bench, sheet, columns)
    return figures


def _sites(sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """The F1 of sites as it was published, and what a reader without a mistake gets by it."""
    items = columns.lesions.get("q1", [])
    if not items:
        return {}
    site_of = {item.entity: item.answer for item in items}
    lesions = [item.entity for item in items]
    published = published_site_f1(lesions, site_of, [sheet.q1[item.sha256].chosen for item in items])
    ceiling = published_site_f1(lesions, site_of, [item.answer for item in items])
    return {
        "q1_f1_published": float(np.mean(list(published.values()))),
        "q1_f1_published_ceiling": float(np.mean(list(ceiling.values()))),
    }


def diagnosis_f1(sheet: Sheet, columns: Columns) -> dict[str, float]:
    items = columns.lesions.get("q3", [])
    return class_f1([item.answer_text for item in items], [sheet.chosen(item) for item in items])


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


def text_lengths(bench: Bench, sheet: Sheet, columns: Columns) -> dict[str, Any]:
    """How long the texts are, less their closing line, and in which script: raters tend to like long ones."""
    result = {}
    for column in ("q4", "q5"):
        replies = sheet.replies.get(column.upper(), {})
        texts = [without_disclaimer(replies.get(i.sha256, ""), bench) for i in columns.lesions.get(column, [])]
        written = [text for text in texts if text]
        if written:
            chinese = [is_chinese(text) for text in written]
            result[column] = {
                "n": len(written),
                "median_characters": float(np.median([len(text) for text in written])),
                "share_chinese": float(np.mean(chinese)),
            }
    return result


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)
