"""What the runs say: curves of every arm on the tuning half, and the chosen arms on the report half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedGroupKFold

from experiments.adaptation.arms import ARMS, FRESH_SEEDS, TUNING_SEED
from experiments.adaptation.runs import ArmResult, Point, StartResult, decode_hits
from experiments.adaptation.secondary import FurtherResult, further_path
from experiments.adaptation.training_sets import DEFAULT
from panendofm.records.documents import read_document
from panendofm.reports.numbers import estimate
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.intervals import group_weights, percentile_interval
from pretrain.adapt.judge import Difference

_REPLICATES = 2000
_CONFIDENCE = 0.95
_WITHIN = 0.005  # two arms this close go on only if their objectives differ
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Halves:
    tuning: NDArray[np.bool_]  # [N]
    groups: NDArray[np.int64]  # [N]

    @property
    def report(self) -> NDArray[np.bool_]:
        return ~self.tuning


def halves_of(start: StartResult) -> Halves:
    """Whole near-duplicate groups on either side, classes in equal shares."""
    labels, groups = (np.array(text.split(), np.int64) for text in (start.labels, start.groups))
    folds = StratifiedGroupKFold(2, shuffle=True, random_state=0)
    tuning = np.zeros(len(labels), bool)
    tuning[next(iter(folds.split(labels, labels, groups)))[1]] = True
    return Halves(tuning, groups)


def change(point: Point, start: Point, measure: str) -> Floats:
    """Of each image [N]: 1 found now and not before, −1 the other way round."""
    now = decode_hits(getattr(point, measure)).astype(np.float64)
    return now - decode_hits(getattr(start, measure))


def over_seeds(changes: Sequence[Floats], groups: NDArray[np.int64], part: NDArray[np.bool_]) -> Difference:
    """Mean over seeds and images of a half; its interval by drawing seeds and near-duplicate groups."""
    rows = np.stack(changes)[:, part]  # [S, M]
    weights = group_weights(groups[part], _REPLICATES, seed=0)  # [R, M]
    means = weights @ rows.T / weights.sum(axis=1, keepdims=True)  # [R, S]
    drawn = np.random.default_rng(1).integers(len(rows), size=means.shape)  # [R, S]
    replicates = np.take_along_axis(means, drawn, axis=1).mean(axis=1)
    low, high = percentile_interval(replicates, _CONFIDENCE) or (np.nan, np.nan)
    return Difference(float(rows.mean()), float(low), float(high))


@dataclass(frozen=True)
class Quarter:
    """A point of an arm's curve on the tuning half, against the recentered start."""

    step: int
    presentations: int
    knn: Difference
    probe: Difference

    @property
    def score(self) -> float:
        return (self.knn.value + self.probe.value) / 2


def curve(result: ArmResult, start: StartResult, halves: Halves) -> list[Quarter]:
    return [
        Quarter(
            point.step,
            point.presentations,
            *(
                over_seeds([change(point, start.recentered, measure)], halves.groups, halves.tuning)
                for measure in ("knn", "probe")
            ),
        )
        for point in result.points
    ]


def best_quarter(quarters: Sequence[Quarter]) -> int:
    return int(np.argmax([quarter.score for quarter in quarters]))


def chosen_step(results: Path, arm: str) -> int:
    """Where the tuning seed's run of the arm was best: there its fresh seeds are judged."""
    start = read_start(results)
    (run,) = read_results(results, DEFAULT, [TUNING_SEED]).get(arm, [None])
    if run is None:
        raise UserError(f"{arm} has not run with the tuning seed, which says where it is best; run it first.")
    return run.points[best_quarter(curve(run, start, halves_of(start)))].step


def chosen_arms(curves: dict[str, list[Quarter]]) -> list[str]:
    """The two arms with the highest scores; of different objectives if the best two are within half a point."""
    scores = {arm: max(quarter.score for quarter in quarters) for arm, quarters in curves.items()}
    ranked = sorted(scores, key=lambda arm: -scores[arm])
    if len(ranked) < 2:
        return ranked
    first, second = ranked[:2]
    if scores[first] - scores[second] <= _WITHIN:
        others = [arm for arm in ranked[1:] if arm[0] != first[0] and scores[first] - scores[arm] <= _WITHIN]
        second = others[0] if others else second
    return [first, second]


def read_start(results: Path, training_set: str = DEFAULT) -> StartResult:
    return read_document(StartResult, results / f"start_{training_set}.json", "the start of the experiment")


def read_results(results: Path, training_set: str, seeds: Sequence[int]) -> dict[str, list[ArmResult]]:
    """Arm → its finished runs with these seeds."""
    found: dict[str, list[ArmResult]] = {}
    for arm in ARMS:
        paths = [results / f"{arm}_{training_set}_{seed}.json" for seed in seeds]
        runs = [read_document(ArmResult, path, "a result of the experiment") for path in paths if path.exists()]
        if runs:
            found[arm] = runs
    return found


def tuning_rows(results: Path) -> list[list[str]]:
    """A row for every quarter of every arm, tuning half, seed 0."""
    start = read_start(results)
    halves = halves_of(start)
    rows = []
    for arm, runs in read_results(results, DEFAULT, [TUNING_SEED]).items():
        quarters = curve(runs[0], start, halves)
        best = best_quarter(quarters)
        for number, (quarter, point) in enumerate(zip(quarters, runs[0].points, strict=True)):
            rows.append(
                [
                    arm if number == 0 else "",
                    ARMS[arm].title if number == 0 else "",
                    f"{quarter.presentations:,}",
                    quarter.knn.shown().replace(" points", ""),
                    quarter.probe.shown().replace(" points", ""),
                    f"{point.common_share:.2f}",
                    f"{runs[0].cpu_seconds / 60:.0f}" if number == len(quarters) - 1 else "",
                    "best" if number == best else "",
                ]
            )
    return rows


def fresh_rows(results: Path) -> list[list[str]]:
    """The arms that ran with fresh seeds, at the quarter that the tuning seed chose, on the report half."""
    start = read_start(results)
    halves = halves_of(start)
    tuned = read_results(results, DEFAULT, [TUNING_SEED])
    rows = []
    for arm, runs in read_results(results, DEFAULT, FRESH_SEEDS).items():
        best = best_quarter(curve(tuned[arm][0], start, halves))
        differences = [
            over_seeds(
                [change(run.points[best], start.recentered, measure) for run in runs], halves.groups, halves.report
            )
            for measure in ("knn", "probe")
        ]
        presentations = f"{runs[0].points[best].presentations:,}"
        shown = [difference.shown().replace(" points", "") for difference in differences]
        rows.append([arm, ARMS[arm].title, presentations, str(len(runs)), *shown])
    return rows


def further_rows(results: Path) -> dict[str, list[list[str]]]:
    """Arm → a row for every secondary metric: the recentered start, and the mean over fresh seeds."""
    found = {}
    for arm in ARMS:
        paths = [further_path(results, arm, seed) for seed in FRESH_SEEDS]
        runs = [_read_further(path) for path in paths if path.exists()]
        if runs:
            start = _read_further(further_path(results, "recentered", 0))
            found[arm] = [*_set_rows(start, runs), *_mask_rows(start, runs)]
    return found


def _read_further(path: Path) -> FurtherResult:
    return read_document(FurtherResult, path, "secondary metrics of the experiment")


def _set_rows(start: FurtherResult, runs: Sequence[FurtherResult]) -> list[list[str]]:
    rows = []
    for number, before in enumerate(start.sets):
        groups = np.array(before.groups.split(), np.int64)
        begun = decode_hits(before.hits).astype(np.float64)
        ended = [decode_hits(run.sets[number].hits).astype(np.float64) for run in runs]
        difference = over_seeds([hits - begun for hits in ended], groups, np.ones(len(groups), bool))
        values = (f"{value:.3f}" for value in (begun.mean(), np.mean(ended)))
        shown = difference.shown().replace(" points", "")
        rows.append([f"kNN, {before.name}", str(len(groups)), *values, shown])
    return rows


def _mask_rows(start: FurtherResult, runs: Sequence[FurtherResult]) -> list[list[str]]:
    """IoU has an interval over images for the start alone; the difference shows its range over seeds."""
    rows = []
    for number, before in enumerate(start.masks):
        ended = np.array([run.masks[number].value for run in runs])
        changes = 100 * (ended - before.value)
        begun = estimate(before.value, before.low, before.high)
        shown = f"{changes.mean():+.1f} ({changes.min():+.1f} to {changes.max():+.1f} over seeds)"
        rows.append([f"IoU, {before.name}", str(before.images), begun, f"{ended.mean():.3f}", shown])
    return rows
