"""Who comes first: by quality, by speed under a threshold, by both, and by the Medico report's clinical table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import floor
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

LOWEST_RATE = 0.85
REAL_TIME_FPS = 45.0
# Frames per second from which a speed has this rank; slower ones have the last.
_SPEED_RANKS = ((64.0, 1), (45.0, 2), (20.0, 3))
_LAST_RANK = 10


@dataclass(frozen=True)
class Entry:
    """One submission as a ranking sees it."""

    team: str
    score: float  # MCC, or what else decides
    recall: float | None = None
    specificity: float | None = None
    fps: float | None = None
    training_images: int | None = None
    run: str = ""
    organizer: bool = False

    @property
    def _fps(self) -> float:
        return self.fps if self.fps is not None else 0.0


def four_digits(value: float) -> int:
    """As the tables print: cut, not rounded. The small term keeps 0.9397 from becoming 0.9396 by representation."""
    return floor(value * 10_000 + 1e-6)


def by_quality(entries: Sequence[Entry]) -> list[Entry]:
    """Highest score first; equal at four digits: the faster, then the one with fewer training images."""
    fewest = float("inf")
    return sorted(
        entries,
        key=lambda e: (
            -four_digits(e.score),
            -e._fps,
            e.training_images if e.training_images is not None else fewest,
        ),
    )


def best_runs(entries: Sequence[Entry]) -> list[Entry]:
    """The best run of each team, in the teams' order of appearance."""
    best: dict[str, Entry] = {}
    for entry in by_quality(entries):
        best.setdefault(entry.team, entry)
    return [best[team] for team in dict.fromkeys(entry.team for entry in entries)]


def efficient(entry: Entry) -> bool:
    """Reading A's threshold: sensitivity and specificity of at least 85%."""
    return (
        entry.fps is not None
        and entry.recall is not None
        and entry.specificity is not None
        and entry.recall >= LOWEST_RATE
        and entry.specificity >= LOWEST_RATE
    )


def by_speed_above_threshold(entries: Sequence[Entry]) -> list[Entry]:
    """Efficiency, reading A: fastest first among the good enough; equal: higher sensitivity, then specificity."""
    good = [entry for entry in entries if efficient(entry)]
    return sorted(good, key=lambda e: (-e._fps, -(e.recall or 0.0), -(e.specificity or 0.0)))


def by_quality_in_real_time(entries: Sequence[Entry], fps: float = REAL_TIME_FPS) -> list[Entry]:
    """Efficiency, reading B: highest score first among the fast enough."""
    return sorted((e for e in entries if e.fps is not None and e.fps >= fps), key=lambda e: (-e.score, -e._fps))


def pareto_front(entries: Sequence[Entry]) -> list[Entry]:
    """Those that no other beats in quality and speed, best quality first."""
    timed = [entry for entry in entries if entry.fps is not None]
    front = [
        e
        for e in timed
        if not any(o._fps >= e._fps and o.score >= e.score and (o._fps > e._fps or o.score > e.score) for o in timed)
    ]
    return sorted(front, key=lambda e: -e.score)


def robustness_rank(mcc: float, mcc_of_second_task: float) -> int:
    """How far the second task's MCC lies from the first's, in whole hundredths; the small term undoes rounding."""
    return min(_LAST_RANK, 1 + floor(100 * abs(mcc - mcc_of_second_task) + 1e-9))


def speed_rank(fps: float) -> int:
    return next((rank for limit, rank in _SPEED_RANKS if fps >= limit), _LAST_RANK)


def dense_ranks(values: dict[K, float], highest_first: bool = False, tolerance: float = 1e-9) -> dict[K, int]:
    """1, 2, 2, 3 …: equal values share a rank and no rank is left out."""
    ranks: dict[K, int] = {}
    previous: float | None = None
    rank = 0
    for name, value in sorted(values.items(), key=lambda item: -item[1] if highest_first else item[1]):
        if previous is None or abs(value - previous) > tolerance:
            rank += 1
            previous = value
        ranks[name] = rank
    return ranks


@dataclass(frozen=True)
class Applicability:
    """A row of the Medico report's last table, by its inferred rules."""

    mcc_rank: int
    robustness_rank: int
    speed_rank: int

    @property
    def mean_of_ranks(self) -> float:
        return (self.mcc_rank + self.robustness_rank + self.speed_rank) / 3


def clinical_ranks(rows: dict[K, Applicability]) -> dict[K, int]:
    """Dense rank of the mean of the three ranks."""
    return dense_ranks({name: row.mean_of_ranks for name, row in rows.items()})
