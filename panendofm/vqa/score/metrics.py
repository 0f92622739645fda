"""The figures of contestants on multiple-choice questions, with intervals over groups, and the tests between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.answers.choices import (
    Accuracy,
    RotatedQuestion,
    accuracies_by,
    chance_level,
    image_gain,
    macro_average,
    robustness,
    rotation_figures,
)
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.intervals import group_weights, percentile_interval
from panendofm.scoring.statistics.paired_tests import benjamini_hochberg, group_sums, holm, mcnemar, sign_flip
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import AnswerSet, cost_of
from panendofm.vqa.client.prompts import Variant
from panendofm.vqa.score.verdicts import Sheet, status_counts

AXES = ("category", "task", "subtask", "scene", "prompt_kind", "dataset")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Frame:
    """The questions that are scored, as arrays, and the draws that all contestants share."""

    items: list[Item]
    n_options: NDArray[np.int64]
    groups: NDArray[np.int64]
    weights: Floats | None

    @property
    def single_groups(self) -> bool:
        return len(np.unique(self.groups)) == len(self.groups)


def frame_of(items: Sequence[Item], draws: int, seed: int = 0) -> Frame:
    groups = np.unique([item.group for item in items], return_inverse=True)[1].astype(np.int64)
    weights = group_weights(groups, draws, seed) if draws else None
    return Frame(list(items), np.array([len(item.options) for item in items], np.int64), groups, weights)


def right_of(frame: Frame, sheet: Sheet, variant: Variant | None = None) -> Floats:
    """1 where the contestant is right [N]; what it didn't answer is wrong."""
    wanted = variant or Variant(prompt=sheet.prompt)
    found = [sheet.verdicts.get((item.id, wanted)) for item in frame.items]
    return np.array([v is not None and v.right for v in found], np.float64)


def accuracy_dict(figures: Accuracy) -> dict[str, Any]:
    return {
        "n": figures.n,
        "accuracy": figures.accuracy,
        "interval": _pair(figures.interval),
        "chance": figures.chance,
        "chance_corrected": figures.chance_corrected,
        "chance_corrected_interval": _pair(figures.corrected_interval),
    }


def _pair(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [interval[0], interval[1]]


def contestant_figures(frame: Frame, sheet: Sheet) -> dict[str, Any]:
    """Everything about one contestant that needs no other."""
    right = right_of(frame, sheet)
    parts: dict[str, NDArray[np.bool_]] = {"all": np.ones(len(right), bool)}
    for axis in AXES:
        values = np.array([getattr(item, axis) for item in frame.items])
        parts |= {f"{axis}\n{value}": values == value for value in sorted(set(values.tolist()))}
    found = accuracies_by(right, frame.n_options, parts, frame.weights)
    result: dict[str, Any] = {"all": accuracy_dict(found["all"])}
    if frame.single_groups:
        interval = wilson(int(right.sum()), len(right))
        result["all"]["wilson"] = None if interval is None else list(interval)
    for axis in AXES:
        own = {name.partition("\n")[2]: v for name, v in found.items() if name.startswith(f"{axis}\n")}
        result[axis] = {name: accuracy_dict(value) for name, value in own.items()}
    result["macro_over_tasks"] = macro_average(right, [item.task for item in frame.items])
    result["statuses"] = status_counts(sheet, frame.items)
    result |= _rotations(frame, sheet) | _blind(frame, sheet, right) | _perturbed(frame, sheet) | _repeats(frame, sheet)
    return result


def _rotations(frame: Frame, sheet: Sheet) -> dict[str, Any]:
    """Position bias; questions whose options have a natural order are kept apart."""
    result = {}
    for name, natural in (("rotation", False), ("rotation_of_natural_order", True)):
        questions = []
        for item in frame.items:
            variants = [Variant(rotation=r, prompt=sheet.prompt) for r in range(len(item.options))]
            verdicts = [sheet.verdicts.get((item.id, variant)) for variant in variants]
            if item.natural_order == natural and all(v is not None for v in verdicts):
                replied = tuple(v.replied if v is not None else None for v in verdicts)
                questions.append(RotatedQuestion(len(item.options), item.answer, replied))
        # A question alone in its first order tells nothing of position.
        if questions and any(len(q.replied) > 1 for q in questions):
            result[name] = asdict(rotation_figures(questions))
    return result


def _blind(frame: Frame, sheet: Sheet, right: Floats) -> dict[str, Any]:
    blind = Variant(blind=True, prompt=sheet.prompt)
    asked = np.array([(item.id, blind) in sheet.verdicts for item in frame.items])
    if not asked.any():
        return {}
    without = right_of(frame, sheet, blind)[asked]
    chance = chance_level(frame.n_options[asked])
    gain, above = image_gain(float(right[asked].mean()), float(without.mean()), chance)
    weights = None if frame.weights is None else frame.weights[:, asked]
    interval = None
    if weights is not None:
        total = weights.sum(axis=1)
        drawn = total > 0
        interval = percentile_interval((weights[drawn] @ (right[asked] - without)) / total[drawn])
    return {
        "blind": {
            "n": int(asked.sum()),
            "accuracy": float(without.mean()),
            "chance": chance,
            "image_gain": gain,
            "image_gain_interval": _pair(interval),
            "blind_above_chance": above,
        }
    }


def _perturbed(frame: Frame, sheet: Sheet) -> dict[str, Any]:
    names = sorted({v.perturb for _, v in sheet.verdicts if v.perturb})
    result = {}
    for name in names:
        variant = Variant(prompt=sheet.prompt, perturb=name)
        asked = np.array([(item.id, variant) in sheet.verdicts for item in frame.items])
        clean, spoiled = right_of(frame, sheet)[asked], right_of(frame, sheet, variant)[asked]
        figures = robustness(clean, spoiled, chance_level(frame.n_options[asked]))
        result[name] = {"n": int(asked.sum()), **{k: _finite(v) for k, v in asdict(figures).items()}}
    return {"perturbed": result} if result else {}


def _repeats(frame: Frame, sheet: Sheet) -> dict[str, Any]:
    numbers = sorted({v.repeat for _, v in sheet.verdicts})
    if len(numbers) < 2:
        return {}
    shares = [float(right_of(frame, sheet, Variant(prompt=sheet.prompt, repeat=n)).mean()) for n in numbers]
    return {"repeats": {"accuracies": shares, "standard_deviation": float(np.std(shares, ddof=1))}}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def accounting(answers: AnswerSet) -> dict[str, Any]:
    """Tokens, money and time of a run."""
    good = [a for a in answers.answers.values() if a.error is None]
    prices = answers.run.get("prices_per_million") or {}
    cost = cost_of(good, prices.get("input"), prices.get("output"))
    latency = [a.latency_s for a in good]
    return {
        "requests": len(good),
        "prompt_tokens": sum(a.usage.get("prompt_tokens", 0) for a in good),
        "completion_tokens": sum(a.usage.get("completion_tokens", 0) for a in good),
        "cost": cost,
        "cost_per_1000": None if cost is None or not good else cost / len(good) * 1000,
        "median_latency_s": float(np.median(latency)) if latency else None,
        "retried": sum(a.attempts > 1 for a in good),
    }


def pair_tests(frame: Frame, sheets: Sequence[Sheet]) -> list[dict[str, Any]]:
    """Every two contestants: difference with interval, the exact test, and both corrections over all pairs."""
    rights = {sheet.name: right_of(frame, sheet) for sheet in sheets}
    rows, raw = [], {}
    for a, b in combinations(rights, 2):
        difference = rights[a] - rights[b]
        if frame.single_groups:
            test = "McNemar"
            p = mcnemar(int(np.sum(difference > 0)), int(np.sum(difference < 0)))
        else:
            test = "sign flip over groups"
            p = sign_flip(group_sums(difference, frame.groups))
        interval = None
        if frame.weights is not None:
            interval = percentile_interval((frame.weights @ difference) / frame.weights.sum(axis=1))
        raw[f"{a}\n{b}"] = p
        rows.append(
            {"a": a, "b": b, "difference": float(difference.mean()), "interval": _pair(interval), "test": test, "p": p}
        )
    corrected, discovery = holm(raw), benjamini_hochberg(raw)
    for row in rows:
        key = f"{row['a']}\n{row['b']}"
        row |= {"p_holm": corrected[key], "p_benjamini_hochberg": discovery[key]}
    return rows
