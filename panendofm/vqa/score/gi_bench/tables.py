"""The leaderboard's tables, as rows of text; a line break stands before what is small print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from panendofm.scoring.statistics.intervals import with_interval
from panendofm.vqa.score.gi_bench.estimates import COLUMNS, FIGURES
from panendofm.vqa.score.gi_bench.people import marks_of

Table = tuple[list[str], list[list[str]]]
TITLES = {
    "q1": "Q1 site", "q1_region_macro_f1": "Q1 F1", "q1_f1_published": "Q1 F1 as published", "q2": "Q2 mIoU",
    "q2_recall_0_5": "R@0.5", "q2_recall_0_75": "R@0.75", "q3": "Q3 diagnosis", "q3_macro_f1": "Q3 F1",
    "q4": "Q4 findings", "q5": "Q5 advice",
}  # fmt: skip


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _value(row: dict[str, Any], figure: str) -> float | None:
    value = row.get(figure)
    return value["mean"] if isinstance(value, dict) else value


def _cell(row: dict[str, Any], figure: str, groups: Sequence[str], between: str = "\n") -> str:
    value = _value(row, figure)
    if value is None:
        return "–"
    low, high = row["intervals"].get(figure) or (None, None)
    shown, _, limits = with_interval(value, low, high).partition(" ")
    return f"{shown}{marks_of(row, figure, groups)}{between}{limits}".rstrip()


def _name(row: dict[str, Any]) -> str:
    if "readers" not in row:
        return str(row["name"])
    return f"{row['name']} ({row['readers']} reader{'' if row['readers'] == 1 else 's'})"


def ranked(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Best diagnosis first; groups of readers after the single contestants."""
    single = sorted(part["rows"], key=lambda row: (-(_value(row, "q3") or 0.0), row["name"]))
    return [*single, *part["groups"]]


def main_table(part: dict[str, Any]) -> Table:
    groups = [group["name"] for group in part["groups"]]
    shown = [figure for figure in TITLES if any(_value(row, figure) is not None for row in ranked(part))]
    rows = [[_name(row), row["kind"], *(_cell(row, figure, groups) for figure in shown)] for row in ranked(part)]
    return ["contestant", "kind", *(TITLES[figure] for figure in shown)], rows


def short_table(part: dict[str, Any]) -> Table:
    """For a terminal: the five questions, answers and cost."""
    groups = [group["name"] for group in part["groups"]]
    rows = []
    for row in ranked(part):
        money = row.get("accounting") or {}
        figures = [_cell(row, column, groups, " ") for column in COLUMNS]
        rows.append([_name(row), *figures, _answered(row), _plain(money.get("cost_per_1000"))])
    return ["contestant", *(TITLES[column] for column in COLUMNS), "answered", "cost/1000"], rows


def reply_table(part: dict[str, Any]) -> Table:
    """What the replies were like, and what they cost in time and money."""
    rows = []
    for row in ranked(part):
        money, texts = row.get("accounting") or {}, row.get("texts", {})
        lengths = [texts.get(column, {}).get("median_characters") for column in ("q4", "q5")]
        requests = money.get("requests") or 0
        tokens = [money.get(f"{side}_tokens", 0) / requests if requests else None for side in ("prompt", "completion")]
        rows.append(
            [
                _name(row),
                _answered(row),
                *(number(row.get(key)) for key in ("q2_valid_rate", "q2_miou_over_valid", "specificity")),
                *(_plain(length, 0) for length in lengths),
                _plain(row.get("seconds"), 2),
                *(_plain(count, 0) for count in tokens),
                _plain(money.get("cost_per_1000")),
                _plain(money.get("cost")),
            ]
        )
    head = ["contestant", "answered", "valid boxes", "mIoU over valid", "specificity", "characters Q4", "Q5"]
    return [*head, "seconds/question", "tokens in", "out", "cost/1000", "cost in all"], rows


def _answered(row: dict[str, Any]) -> str:
    rate = row.get("answer_rate", {})
    return f"{np.mean(list(rate.values())):.3f}" if rate else "–"


def _plain(value: float | None, digits: int = 3) -> str:
    return "–" if not value else f"{value:.{digits}f}"


def difference_table(part: dict[str, Any]) -> Table:
    """Each model less each group of readers; a mark where Holm's p is below the level."""
    groups = [group["name"] for group in part["groups"]]
    models = [row for row in ranked(part) if row.get("against")]
    shown = [f for f in FIGURES if any(f in row["against"][group] for row in models for group in groups)]
    rows = []
    for row in models:
        for group in groups:
            cells = [_gap(row["against"][group].get(figure), marks_of(row, figure, [group])) for figure in shown]
            rows.append([f"{row['name']} − {group}", *cells])
    return ["difference", *(TITLES[figure] for figure in shown)], rows


def _gap(entry: dict[str, Any] | None, mark: str) -> str:
    if entry is None:
        return "–"
    limits = "" if entry["interval"] is None else "\n({:+.3f} to {:+.3f})".format(*entry["interval"])
    p = f"\np {entry['p_holm']:.3f}" if "p_holm" in entry else ""
    return f"{entry['difference']:+.3f}{mark}{limits}{p}"


def variant_tables(part: dict[str, Any]) -> tuple[Table, Table]:
    """Runs without the picture, and repeated runs."""
    return _blind_table(part["rows"]), _repeat_table(part["rows"])


def _blind_table(rows: Sequence[dict[str, Any]]) -> Table:
    asked = [row for row in rows if "blind" in row]
    shown = [column for column in COLUMNS if any(column in row["blind"] for row in asked)]
    lines = []
    for row in asked:
        cells = []
        for column in shown:
            own = row["blind"].get(column)
            gap = {"difference": own["picture_adds"], "interval": own["interval"]} if own else None
            cells += [number(own["without_picture"]) if own else "–", _gap(gap, "")]
        lines.append([row["name"], *cells])
    return ["contestant", *(word for c in shown for word in (f"{TITLES[c]} blind", "picture adds"))], lines


def _repeat_table(rows: Sequence[dict[str, Any]]) -> Table:
    asked = [row for row in rows if "repeats" in row]
    shown = [column for column in COLUMNS if any(column in row["repeats"] for row in asked)]
    lines = []
    for row in asked:
        runs = [row["repeats"].get(column) for column in shown]
        cells = [f"{np.mean(own['runs']):.3f} ± {own['standard_deviation']:.3f}" if own else "–" for own in runs]
        lines.append([row["name"], str(max(len(own["runs"]) for own in runs if own)), *cells])
    return ["contestant", "runs", *(TITLES[column] for column in shown)], lines
