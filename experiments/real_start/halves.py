"""The rule that chooses a checkpoint, tried on all runs: chosen on one half of the queries, judged on the other.

A rule is worth what its choice scores on images that it has not seen. Halves are made of whole groups of
near-duplicates, several times at random, and both halves choose once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_knn import Evaluation, SelectionConfig, paired_bootstrap, select
from experiments.real_start.arms import BEFORE, TARGET
from panendofm.records.evaluation import decode_ranks, encode_ranks

METRIC = "top1_k20"
_SPLITS = 10
_SAMPLES = 500  # of the rules' own bootstraps
_DRAWS = 2000  # of runs
_HIGHEST, _START = "the highest", "always the start"
Rule = Callable[[Sequence[Evaluation]], int]


@dataclass(frozen=True)
class Mean:
    """With its 95% interval over the runs."""

    value: float
    low: float
    high: float

    def shown(self) -> str:
        return f"{self.value:+.2f} ({self.low:+.2f} to {self.high:+.2f})"


@dataclass(frozen=True)
class Worth:
    """Of one rule, over all runs and halves, in points of kNN top-1 on the half that did not choose."""

    rule: str
    against_start: Mean
    against_highest: Mean  # against taking the highest
    against_best: float  # against the checkpoint that is best on the judging half: what a perfect choice would give
    lowest: float  # of all against the start


def worth_of_rules(results: list[dict[str, Any]]) -> list[Worth]:
    judged = np.stack([_judged(trained(result["curves"][TARGET])) for result in results])  # [runs, halves, rules + 1]
    values = dict(zip(RULES, np.moveaxis(judged, 2, 0), strict=False))
    return [
        Worth(
            name,
            mean_over_runs(own - values[_START]),
            mean_over_runs(own - values[_HIGHEST]),
            float((own - judged[:, :, -1]).mean()),
            float((own - values[_START]).min()),
        )
        for name, own in values.items()
    ]


def _judged(history: list[dict[str, Any]]) -> NDArray[np.float64]:
    """What each rule's choice on a half has on the other [halves, rules], in points; last, the highest there."""
    found = []
    for half in halves(_groups(history[0])):
        for choosing in (half, ~half):
            seen = [_part(point, choosing) for point in history]
            there = [100 * _top1(point, ~choosing) for point in history]
            found.append([*(there[rule(seen)] for rule in RULES.values()), max(there)])
    return np.array(found)


def mean_over_runs(differences: NDArray[np.float64]) -> Mean:
    """Of [runs, halves], with a bootstrap over the runs."""
    by_run = differences.mean(axis=1)
    drawn = np.random.default_rng(0).integers(len(by_run), size=(_DRAWS, len(by_run)))
    low, high = np.quantile(by_run[drawn].mean(axis=1), [0.025, 0.975])
    return Mean(float(by_run.mean()), float(low), float(high))


def halves(groups: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """Masks [N] in each of which about half of the groups lie whole."""
    names = np.unique(groups)
    masks = []
    for seed in range(_SPLITS):
        drawn = np.random.default_rng(seed).permutation(names)[: len(names) // 2]
        masks.append(np.isin(groups, drawn))
    return masks


def tuning_half(groups: NDArray[np.int64]) -> NDArray[np.bool_]:
    """The half on which settings are tuned; figures are reported on the other."""
    return halves(groups)[0]


def trained(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """From step 0 of the run on: without the released weights, where those were recentered first."""
    return [point for point in curve if not point.get(BEFORE)]


def hits(point: dict[str, Any]) -> NDArray[np.float64]:
    return (np.asarray(decode_ranks(point["ranks"])) < 1).astype(np.float64)


def _top1(point: dict[str, Any], part: NDArray[np.bool_]) -> float:
    return float(hits(point)[part].mean())


def _groups(point: dict[str, Any]) -> NDArray[np.int64]:
    return np.array([int(group) for group in point["groups"].split()])


def _part(point: dict[str, Any], part: NDArray[np.bool_]) -> Evaluation:
    """What would have been known of a checkpoint, had there been only these queries."""
    ranks = {k: np.asarray(decode_ranks(text))[part] for k, text in point["ranks_by_k"].items()}
    values: dict[str, float | None] = {f"top1_k{k}": float(np.mean(r < 1)) for k, r in ranks.items()}
    return Evaluation(
        f"step_{point['step']}",
        point["step"],
        {**values, "rankme": point["rankme"]},
        {k: encode_ranks(r) for k, r in ranks.items()},
        tuple(_groups(point)[part].tolist()),
    )


def _ours(history: Sequence[Evaluation]) -> int:
    return select(history, SelectionConfig(metric=METRIC, bootstrap_samples=_SAMPLES)).index


def _highest(history: Sequence[Evaluation]) -> int:
    return int(np.argmax([evaluation.values[METRIC] or 0.0 for evaluation in history]))


def _by_rankme_within_noise(history: Sequence[Evaluation]) -> int:
    """Whatever is not worse than the best that is left beyond noise counts as equal, and RankMe decides.

    After each evaluation only the chosen and the newest checkpoint stay, as a run keeps them.
    """
    chosen = 0
    for newest in range(1, len(history)):
        left = [chosen, newest]
        best = max(left, key=lambda i: history[i].values[METRIC] or 0.0)
        equal = [
            i for i in left if i == best or paired_bootstrap(history[i], history[best], METRIC, 0.95, _SAMPLES)[2] >= 0
        ]
        chosen = max(equal, key=lambda i: history[i].values["rankme"] or 0.0)
    return chosen


def _start(history: Sequence[Evaluation]) -> int:
    return 0


def _last(history: Sequence[Evaluation]) -> int:
    return len(history) - 1


RULES: dict[str, Rule] = {
    "the rule of eval_knn": _ours,
    _HIGHEST: _highest,
    "within noise, RankMe decides": _by_rankme_within_noise,
    _START: _start,
    "always the last": _last,
}
