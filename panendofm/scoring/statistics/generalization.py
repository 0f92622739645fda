"""How much worse outside: seen centers against one that was not seen."""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 0.1  # of the seen value


@dataclass(frozen=True)
class Generalization:
    seen: float
    unseen: float
    gap: float  # seen − unseen, positive: worse outside
    deviation: float  # distance from the near limit of ±10% around the seen value
    official_deviation: float  # EndoCV's script: from the lower limit, also when the value lies above the upper one


def generalization(seen: float, unseen: float) -> Generalization:
    low = seen * (1 - TOLERANCE)
    high = seen * (1 + TOLERANCE)
    gap = seen - unseen
    if low <= unseen <= high:
        return Generalization(seen, unseen, gap, 0.0, 0.0)
    return Generalization(seen, unseen, gap, low - unseen if unseen < low else unseen - high, abs(low - unseen))
