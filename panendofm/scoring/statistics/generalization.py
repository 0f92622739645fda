"""How much worse outside: seen centres against one that was not seen."""

from __future__ import annotations

from typing import NamedTuple

TOLERANCE = 0.1  # of the seen value


class Generalisation(NamedTuple):
    gap: float  # seen − unseen, positive: worse outside
    deviation: float  # distance from the near limit of ±10% around the seen value
    official_deviation: float  # EndoCV's script: from the lower limit, also when the value lies above the upper one


def generalisation(seen: float, unseen: float) -> Generalisation:
    low, high = seen * (1 - TOLERANCE), seen * (1 + TOLERANCE)
    if low <= unseen <= high:
        return Generalisation(seen - unseen, 0.0, 0.0)
    return Generalisation(seen - unseen, low - unseen if unseen < low else unseen - high, abs(low - unseen))
