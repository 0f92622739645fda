"""Numbers as people read them: in tables, pages and on the terminal."""

from __future__ import annotations

import math

MISSING = "–"


def number(value: float | None, digits: int = 3) -> str:
    """«0.812»; a dash where there is none."""
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 3) -> str:
    """«+0.012», for differences; what rounds to nothing has no minus."""
    return MISSING if value is None or math.isnan(value) else f"{round(value, digits) + 0.0:+.{digits}f}"


def percent(value: float | None, digits: int = 0) -> str:
    return MISSING if value is None or math.isnan(value) else f"{value:.{digits}%}"


def estimate(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """«0.812 (0.770–0.845)»; the value alone without an interval."""
    shown = number(value, digits)
    if value is None or low is None or high is None:
        return shown
    return f"{shown} ({number(low, digits)}–{number(high, digits)})"


def with_interval(value: float | None, interval: tuple[float, float] | None, digits: int = 3) -> str:
    """The same, of an interval that may be missing."""
    low, high = interval or (None, None)
    return estimate(value, low, high, digits)


def difference(value: float | None, low: float | None, high: float | None, digits: int = 3) -> str:
    """«+0.012 (−0.004 to +0.028)»: with signs, a dash between the limits would look like another sign."""
    shown = signed(value, digits)
    if value is None or low is None or high is None:
        return shown
    return f"{shown} ({signed(low, digits)} to {signed(high, digits)})"
