"""What scoring labels leaves for spreadsheets and for paired tests: CSV files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.files.text_table import read_table
from panendofm.challenge.score.results import LabelScores, Results, Scores
from panendofm.runtime.csv_files import csv_text

ANSWERS = "answers.csv"
_ANSWER_COLUMNS = ("file", "frame", "group", "truth", "answer", "confidence")
_CLASS_RATES = ("recall", "precision", "specificity", "npv", "accuracy", "f1", "mcc")
_COUNTS = ("tp", "tn", "fp", "fn")
_SUMMARY_METRICS = ("precision", "recall", "specificity", "accuracy", "f1", "mcc")


def label_tables(scores: LabelScores, truth: Truth, answers: Answers) -> dict[str, str]:
    """CSV files by name."""
    return {
        "confusion.csv": _confusion_table(scores),
        "classes.csv": _class_table(scores),
        ANSWERS: _answer_table(truth, answers),
    }


def _confusion_table(scores: LabelScores) -> str:
    rows = [[name, *row] for name, row in zip(scores.classes, scores.confusion, strict=True)]
    return csv_text(["truth/prediction", *scores.answer_columns], rows)


def _class_table(scores: LabelScores) -> str:
    rows = [
        [
            *(name, row.images, row.tp, row.fp, row.fn, row.tn),
            *(_six_digits(row.rates[rate]) for rate in _CLASS_RATES),
            *(_six_digits(limit) for limit in row.recall_interval or ()),
        ]
        for name, row in scores.per_class.items()
    ]
    return csv_text(["class", "images", "tp", "fp", "fn", "tn", *_CLASS_RATES, "recall_low", "recall_high"], rows)


def _answer_table(truth: Truth, answers: Answers) -> str:
    names = [*truth.classes, ""]
    rows = []
    for i, (name, frame) in enumerate(truth.keys):
        answer = answers.label[i] if answers.label[i] != MISSING else -1
        confidence = f"{answers.confidence[i]:.6g}"
        rows.append([name, frame, int(truth.groups[i]), names[truth.label[i]], names[answer], confidence])
    return csv_text(_ANSWER_COLUMNS, rows)


def summary_table(results: Results, scores: LabelScores) -> str:
    """The row of the organizers' own tables, in the chosen profile."""
    own = results.submission
    counts = scores.profiles[own.profile].counts
    metrics = [results.metrics.get(name) for name in _SUMMARY_METRICS]
    speed = scores.speed
    times = ["", "", ""] if speed is None else [f"{v:.4f}" for v in (speed.fps, speed.mean_ms, speed.p95_ms)]
    row = [
        *(own.team, own.task, own.run),
        *(f"{counts[name]:g}" for name in _COUNTS),
        *(_six_digits(metric.value if metric else None) for metric in metrics),
        *times,
        scores.n,
    ]
    return csv_text(["team", "task", "run", *_COUNTS, *_SUMMARY_METRICS, "fps", "mean_ms", "p95_ms", "n"], [row])


def _six_digits(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def subgroup_csv(scores: Scores) -> str:
    """One line a subgroup and metric, with the difference to all images of its classes."""
    rows = []
    for s in scores.subgroups:
        metrics = {"image_score": (s.image_score, s.image_score_difference)}
        metrics |= {name: (found, s.differences[name]) for name, found in s.metrics.items()}
        for name, pair in metrics.items():
            limits = ["" if v is None else f"{v:.6f}" for found in pair for v in (found.value, found.low, found.high)]
            rows.append([s.kind, s.name, s.images, s.groups, "yes" if s.small else "no", name, *limits])
    ends = [f"{part}{end}" for part in ("", "difference_") for end in ("value", "low", "high")]
    return csv_text(["kind", "name", "images", "groups", "small", "metric", *ends], rows)


@dataclass(frozen=True)
class AnswerTable:
    """answers.csv as paired tests read it."""

    groups: NDArray[np.int64]
    truth: list[str]
    answer: list[str]


def read_answer_table(folder: Path) -> AnswerTable:
    found = read_table(folder / ANSWERS, ",", ("file",), _ANSWER_COLUMNS)
    groups = [row.whole_number("group", "the group") for row in found.rows]
    return AnswerTable(
        np.array(groups, np.int64),
        [row.text("truth") for row in found.rows],
        [row.text("answer") for row in found.rows],
    )
