"""Estimates and small results as text, with the four digits that challenges print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any

from panendofm.reports.numbers import MISSING, estimate, number
from panendofm.scoring.statistics.estimates import Estimate


def shown(found: Estimate | None, digits: int = 4) -> str:
    """«0.9397 (0.9351–0.9440)»; a dash where there is none."""
    return MISSING if found is None else estimate(found.value, found.low, found.high, digits)


def items_of(content: Any) -> dict[str, Any]:
    """The fields of a small dataclass, or what a mapping holds, by names that can be read."""
    values = vars(content) if is_dataclass(content) else content
    return {name.replace("_", " "): value for name, value in (values or {}).items()}


def plain_text(value: Any) -> str:
    """On one line, whatever it holds."""
    if isinstance(value, Estimate):
        return shown(value)
    if is_dataclass(value) or isinstance(value, Mapping):
        return "; ".join(f"{name} {plain_text(inner)}" for name, inner in items_of(value).items())
    return number(value, 4) if value is None or isinstance(value, float) else str(value)
