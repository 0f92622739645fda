"""The leaderboard's main table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vqa.score.people import marks_of

_SHOWN = {
    "q1": "Q1 site", "q1_region_macro_f1": "Q1 F1", "q1_f1_published": "Q1 F1 as published", "q2": "Q2 mIoU",
    "q2_recall_0_5": "R@0.5", "q2_recall_0_75": "R@0.75", "q3": "Q3 diagnosis", "q3_macro_f1": "Q3 F1",
    "q4": "Q4 findings", "q5": "Q5 advice",
}  # fmt: skip


def _cell(row: dict[str, Any], column: str, groups: Sequence[str]) -> str:
    value = row.get(column)
    if value is None:
        return "–"
    if not isinstance(value, dict):
        return f"{value:.3f}"
    if value.get("mean") is None:
        return "–"
    interval = value.get("interval")
    spread = "" if interval is None else f" ({interval[0]:.3f}–{interval[1]:.3f})"
    return f"{value['mean']:.3f}{marks_of(row, column, groups)}{spread}"


def table_of(part: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Best diagnosis first; groups of readers after the single contestants."""
    groups = [group["name"] for group in part["groups"]]
    head = ["contestant", "kind", *_SHOWN.values(), "answered", "valid boxes", "specificity", "cost/1000"]
    ranked = sorted(part["rows"], key=lambda row: -(row.get("q3") or {"mean": 0.0})["mean"])
    rows = []
    for row in [*ranked, *part["groups"]]:
        plural = "" if row.get("readers") == 1 else "s"
        name = f"{row['name']} ({row['readers']} reader{plural})" if "readers" in row else row["name"]
        rate = row.get("answer_rate", {})
        money = row.get("accounting") or {}
        rows.append(
            [
                name,
                row["kind"],
                *(_cell(row, column, groups) for column in _SHOWN),
                f"{np.mean(list(rate.values())):.3f}" if rate else "–",
                number(row.get("q2_valid_rate")),
                number(row.get("specificity")),
                number(money.get("cost_per_1000")),
            ]
        )
    return head, rows


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
