"""Which checkpoint to keep, whether it is better than the others beyond noise, and when to stop.

Pure functions on a history: a list of `Evaluation`, one per checkpoint, in the order of training.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from eval_knn.config import SelectionConfig
from panendofm.records.evaluation import WORSE, AgainstStart, Comparison, FallRule, Verdict, decode_ranks, split_metric
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.intervals import Interval, group_weights, percentile_interval

# 0.7813 − 0.002 is not 0.7793 in binary.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Evaluation:
    """What selection needs to know of one checkpoint."""

    checkpoint: str
    step: int | None
    values: dict[str, float | None]  # "top1_k20": 0.81, …, "rankme": 93.2
    ranks: dict[str, str] = field(default_factory=dict)  # "20": one digit per query
    groups: tuple[int, ...] = ()  # near-duplicate group of each query; () when every query stands alone
    split_sha256: str = ""
    vetoed: str = ""  # why it can't be chosen: it fell on another set


@dataclass(frozen=True)
class Choice:
    """The chosen checkpoint and why."""

    index: int
    evaluation: Evaluation
    why: str
    equals: list[str]  # checkpoints that might have been chosen, itself included
    highest: str  # the checkpoint of the highest value ever, also when it is gone
    comparisons: list[Comparison]


@dataclass(frozen=True)
class Stop:
    """Whether to stop, and why or why not."""

    stop: bool
    why: str


def select(
    history: Sequence[Evaluation], config: SelectionConfig | None = None, available: Collection[str] | None = None
) -> Choice:
    """The checkpoint to keep; `available` names those whose files are still there (None: all).

    Everything is measured by the highest value of the whole history, also of checkpoints that are gone: were it only
    the highest that is left, a falling run could be followed down in steps that are each within the noise.

    A checkpoint that another set vetoes is no candidate, and its value no measure.

    1. Those at most `equal_within` below the highest, and not below step 0 beyond noise. 2. Among these the tie-breaks
    decide, then the metric, then its mean over all k that were evaluated, at last the earlier checkpoint.
    """
    config = config or SelectionConfig()
    _check_history(history)
    vetoed = [evaluation.checkpoint for evaluation in history if evaluation.vetoed]
    history = [evaluation for evaluation in history if not evaluation.vetoed]
    if not history:
        raise UserError(f"nothing to select from: every evaluated checkpoint is vetoed ({', '.join(vetoed)}).")
    values = [_value(evaluation, config.metric) for evaluation in history]
    highest = int(np.argmax(values))
    present = [i for i, e in enumerate(history) if available is None or e.checkpoint in available]
    if not present:
        raise UserError("nothing to select from: none of the evaluated checkpoints is there any more.")
    equals = [i for i in present if _may_be_chosen(history, values, i, highest, config)]
    lost = not equals
    if lost:  # whoever removed the best by hand gets the best of the rest
        most = max(values[i] for i in present)
        equals = [i for i in present if values[i] == most]
    chosen, deciding = _break_ties(history, equals, config)
    low, high = _own_interval(history[chosen], config)
    around = "" if np.isnan(low) else f" ({100 * config.confidence:g}% interval {low:.4f} to {high:.4f})"
    why = f"{config.metric} {values[chosen]:.4f}{around}"
    within = f"within {config.equal_within:g} of the highest"
    if lost:
        why += " is the highest that is left"
    elif len(equals) > 1:
        why += f"; {len(equals)} of {len(history)} are {within} ({values[highest]:.4f}); {deciding}"
    elif chosen != highest:
        why += f" is {within}"
    else:
        why += f" is the highest of {len(history)}" if len(history) > 1 else " is the only one"
    if highest not in present:
        why += f"; {history[highest].checkpoint} had {values[highest]:.4f} and is gone"
    if vetoed:
        why += f"; vetoed: {', '.join(vetoed)}"
    names = [history[i].checkpoint for i in equals]
    comparisons = _compare_with_others(history, chosen, config)
    return Choice(chosen, history[chosen], why, names, history[highest].checkpoint, comparisons)


def must_stay(history: Sequence[Evaluation], config: SelectionConfig | None = None) -> set[str]:
    """Checkpoints that must not be removed: the highest ever seen, and what would be chosen now."""
    if all(evaluation.vetoed for evaluation in history):
        return set()
    choice = select(history, config)
    return {choice.highest, choice.evaluation.checkpoint}


def should_stop(history: Sequence[Evaluation], config: SelectionConfig | None = None, from_step: int = 0) -> Stop:
    """Stop when the metric has not risen by the minimum gain for `patience_evaluations` evaluations in a row.

    The level to beat is the last value that was itself a gain, so that many small rises together count. Evaluations
    before `from_step` belong to the level, but use up no patience: a backbone that is frozen can't get better. A value
    that another set vetoes is no gain.
    """
    config = config or SelectionConfig()
    if config.patience_evaluations == 0:
        return Stop(False, "early stopping is off (selection.patience_evaluations=0)")
    if not history:
        return Stop(False, "nothing was evaluated yet")
    values = [_value(evaluation, config.metric) for evaluation in history]
    level, at = values[0], 0
    for i, value in enumerate(values):
        if value > level + config.minimum_gain and not history[i].vetoed:
            level, at = value, i
    last = len(values) - 1
    first = next((i for i, e in enumerate(history) if (e.step or 0) >= from_step), last)
    waited = last - max(at, first)
    said = (
        f"{config.metric} has not risen more than {config.minimum_gain:g} above {level:.4f} "
        f"({history[at].checkpoint}) for {waited} evaluations"
    )
    if waited >= config.patience_evaluations and len(values) - first >= config.first_stop_evaluation:
        return Stop(True, f"{said}: stop")
    if at == last:
        return Stop(False, f"{config.metric} rose to {level:.4f} ({history[at].checkpoint})")
    if waited == 0:
        return Stop(False, f"the patience of {config.patience_evaluations} begins at step {from_step:,}")
    return Stop(False, f"{said}; the patience is {config.patience_evaluations}")


def paired_bootstrap(
    a: Evaluation, b: Evaluation, metric: str, confidence: float = 0.95, samples: int = 2000
) -> tuple[float, float, float]:
    """Difference a − b of top-1 or top-5 at some k, and its interval, with the same queries drawn for both.

    (nan, nan, nan) when the metric is not a mean over queries or the queries' results are not known.
    """
    right_a, right_b = _right(a, metric), _right(b, metric)
    if right_a is None or right_b is None:
        return float("nan"), float("nan"), float("nan")
    difference = right_a.astype(np.float64) - right_b
    weights = _weights(a.groups, len(difference), samples)
    low, high = _interval(weights @ difference / weights.sum(axis=1), confidence)
    return float(difference.mean()), low, high


def fell_below(start: Evaluation, now: Evaluation, rule: FallRule) -> bool:
    """Whether a checkpoint is below the start by more than the rule's margin, and by more than noise.

    Noise is that of the paired bootstrap over queries. Where it is not known (a metric that is no mean over queries),
    the margin alone decides.
    """
    if not _value(start, rule.metric) - _value(now, rule.metric) > rule.margin:
        return False
    _, _, high = paired_bootstrap(now, start, rule.metric, rule.confidence, rule.bootstrap_samples)
    return not high >= 0  # nan: the noise is not known


def against_start(history: Sequence[Evaluation], config: SelectionConfig) -> dict[str, AgainstStart]:
    """Every checkpoint against that of step 0, the weights that training began with; none where those are unknown."""
    verdicts: dict[str, AgainstStart] = {}
    if not history or history[0].step != 0:
        return verdicts
    for now in history[1:]:
        difference, low, high = paired_bootstrap(
            now, history[0], config.metric, config.confidence, config.bootstrap_samples
        )
        if not np.isnan(difference):
            verdicts[now.checkpoint] = AgainstStart(difference, low, high, _verdict(low, high))
    return verdicts


def _verdict(low: float, high: float) -> Verdict:
    if low > 0:
        return "better beyond noise"
    return WORSE if high < 0 else "no difference beyond noise"


@lru_cache(maxsize=2)
def _weights(groups: tuple[int, ...], queries: int, samples: int) -> NDArray[np.float64]:
    """The bootstrap's draws, made once for all comparisons of a history."""
    return group_weights(np.array(groups, np.int64) if groups else np.arange(queries), samples, seed=0)


def _check_history(history: Sequence[Evaluation]) -> None:
    if not history:
        raise UserError("nothing to select from: no checkpoint was evaluated yet.")
    for evaluation in history:
        if evaluation.split_sha256 != history[0].split_sha256:
            raise UserError(
                f"{evaluation.checkpoint} and {history[0].checkpoint} were evaluated on different splits, so they "
                "can't be compared; evaluate both with one split file (split.file)."
            )


def _value(evaluation: Evaluation, metric: str) -> float:
    """A missing or undefined value loses against every other."""
    if metric not in evaluation.values:
        raise UserError(
            f"{evaluation.checkpoint} was evaluated without {metric}; choose another selection.metric (it has: "
            f"{', '.join(sorted(evaluation.values))}), or remove its result from the run to have it evaluated again."
        )
    value = evaluation.values[metric]
    return float("-inf") if value is None or np.isnan(value) else value


def _right(evaluation: Evaluation, metric: str) -> NDArray[np.bool_] | None:
    kind, k = split_metric(metric)
    if kind not in ("top1", "top5") or str(k) not in evaluation.ranks:
        return None
    return np.asarray(decode_ranks(evaluation.ranks[str(k)]) < (1 if kind == "top1" else 5))


def _may_be_chosen(
    history: Sequence[Evaluation], values: list[float], i: int, highest: int, config: SelectionConfig
) -> bool:
    if i == highest or values[i] == values[highest]:
        return True
    if values[i] < values[highest] - config.equal_within - _ROUNDING:
        return False
    if history[0].step != 0:
        return True
    _, _, above = paired_bootstrap(history[i], history[0], config.metric, config.confidence, config.bootstrap_samples)
    return not above < 0  # nan: the noise is not known


def _break_ties(history: Sequence[Evaluation], equals: list[int], config: SelectionConfig) -> tuple[int, str]:
    kind, k = split_metric(config.metric)
    by_all_k = [] if k is None else [f"mean {kind} over all k"]
    left = equals
    for name in (*config.tie_breaks, config.metric, *by_all_k):
        tied = [history[i] for i in left]
        found = _means_over_k(tied, kind) if name in by_all_k else [_value(evaluation, name) for evaluation in tied]
        most = max(found)
        left = [i for i, value in zip(left, found, strict=True) if value == most]
        if len(left) == 1:
            return left[0], f"{name} {most:.4g} decides"
    return left[0], "the earliest is taken"


def _means_over_k(evaluations: Sequence[Evaluation], kind: str) -> list[float]:
    """The same metric for all numbers of neighbors that they share: two checkpoints rarely agree in every one."""
    shared = [name for name in evaluations[0].values if all(name in e.values for e in evaluations)]
    names = [name for name in shared if name.startswith(f"{kind}_k")]
    return [float(np.mean([_value(evaluation, name) for name in names])) for evaluation in evaluations]


def _own_interval(evaluation: Evaluation, config: SelectionConfig) -> tuple[float, float]:
    right = _right(evaluation, config.metric)
    if right is None:
        return float("nan"), float("nan")
    weights = _weights(evaluation.groups, len(right), config.bootstrap_samples)
    return _interval(weights @ right / weights.sum(axis=1), config.confidence)


def _interval(drawn: NDArray[np.float64], confidence: float) -> Interval:
    return percentile_interval(drawn, confidence) or Interval(float("nan"), float("nan"))


def _compare_with_others(history: Sequence[Evaluation], chosen: int, config: SelectionConfig) -> list[Comparison]:
    others = {"start": 0, "previous": chosen - 1, "next": chosen + 1}
    comparisons = []
    for role, i in others.items():
        if not 0 <= i < len(history) or i == chosen or (role == "previous" and i == 0):
            continue
        difference, low, high = paired_bootstrap(
            history[chosen], history[i], config.metric, config.confidence, config.bootstrap_samples
        )
        if not np.isnan(difference):
            other = history[i].checkpoint
            comparisons.append(Comparison(difference, low, high, _verdict(low, high), other, role))
    return comparisons
