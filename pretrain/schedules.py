"""Learning rate, weight decay, momentum and teacher temperature as pure functions of the step.

Durations carry their unit: "80 official epochs" (of 1,250 steps), "2 data epochs" (passes over the corpus) or
"12500 steps". A bare number is refused.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError

OFFICIAL_EPOCH_STEPS = 1250
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*(steps?|official epochs?|data epochs?)\s*", re.IGNORECASE)


@dataclass
class ScheduleConfig:
    """The defaults are the reference's ViT-L/14 recipe."""

    shape: Literal["cosine", "constant"] = option(
        "cosine: the reference's. constant: warm-up, then no change, so that stopping early loses nothing.", "cosine"
    )
    total: str = option("Length of the training.", "500 official epochs")
    warmup: str = option("Time until the learning rate has reached its peak.", "80 official epochs")
    cooldown: str = option("constant only: the last part, in which the values move to their ends.", "0 steps")
    base_lr: float = option("Peak learning rate at a global batch of 1024; scaled by sqrt(batch / 1024).", 2e-4, low=0)
    min_lr: float = option("Learning rate at the end.", 1e-6, low=0)
    weight_decay_start: float = option("Weight decay at the first step.", 0.04, low=0)
    weight_decay_end: float = option("Weight decay at the end.", 0.2, low=0)
    momentum_start: float = option("Momentum of the teacher at the first step.", 0.994, low=0, high=1)
    momentum_end: float = option("Momentum of the teacher at the end.", 1.0, low=0, high=1)
    teacher_temperature_start: float = option("Teacher temperature at the first step.", 0.04, above=0)
    teacher_temperature_peak: float = option("Teacher temperature after its warm-up.", 0.07, above=0)
    teacher_temperature_warmup: str = option("Time until the teacher temperature has its peak.", "30 official epochs")
    freeze_last_layer: str = option("Time during which the heads' last layers stay as they are.", "1 official epochs")

    def check(self) -> None:
        for name in ("total", "warmup", "cooldown", "teacher_temperature_warmup", "freeze_last_layer"):
            parse_duration(name, getattr(self, name))


@dataclass(frozen=True)
class Ramp:
    """How much of the recipe reaches the backbone, as factors; 1 everywhere is the recipe itself."""

    lr: float = 1.0
    weight_decay: float = 1.0
    teacher: float = 1.0  # of 1 − momentum: at 0 the teacher's backbone stays as it is
    layer_decay: float = 1.0  # further factor on the learning rate, once per block towards the input
    drop_path: float = 1.0
    ibot: float = 1.0  # of the iBOT loss
    anchor: float = 1.0  # of the loss that holds on to the starting weights, where there is one


@dataclass(frozen=True)
class StepValues:
    """What one step trains with."""

    lr: float
    last_layer_lr: float
    weight_decay: float
    momentum: float
    teacher_temperature: float
    heads_lr: float | None = None  # of the heads and the mask token; None: as all else
    ramp: Ramp = Ramp()

    @property
    def backbone_momentum(self) -> float:
        return 1.0 - (1.0 - self.momentum) * self.ramp.teacher if self.ramp.teacher != 1.0 else self.momentum

    def with_lr_factor(self, factor: float) -> StepValues:
        """The same with every learning rate multiplied."""
        heads_lr = None if self.heads_lr is None else self.heads_lr * factor
        return replace(self, lr=self.lr * factor, last_layer_lr=self.last_layer_lr * factor, heads_lr=heads_lr)

    def metrics(self) -> dict[str, float]:
        """What is logged of a step: the values, and of the ramp what is not the recipe."""
        plain = {name: value for name, value in vars(self).items() if isinstance(value, float)}
        return plain | {f"ramp_{name}": value for name, value in vars(self.ramp).items() if value != 1.0}


@dataclass(frozen=True)
class ResolvedSchedule:
    """A schedule in steps: what a run prints before its first step and asks at every step."""

    shape: Literal["cosine", "constant"]
    total_steps: int
    warmup_steps: int
    cooldown_steps: int
    temperature_warmup_steps: int
    freeze_last_layer_steps: int
    lr: tuple[float, float, float]  # start, peak, end
    weight_decay: tuple[float, float]  # start, end
    momentum: tuple[float, float]
    temperature: tuple[float, float]

    def at(self, step: int) -> StepValues:
        """The values of step `step`, counted from 0. Depends on nothing else."""
        lr = self._curve(step, *self.lr, self.warmup_steps)
        return StepValues(
            lr=lr,
            last_layer_lr=0.0 if step < self.freeze_last_layer_steps else lr,
            weight_decay=self._curve(step, self.weight_decay[0], *self.weight_decay, 0),
            momentum=self._curve(step, self.momentum[0], *self.momentum, 0),
            teacher_temperature=_warmup(step, *self.temperature, self.temperature_warmup_steps),
        )

    def _curve(self, step: int, start: float, peak: float, end: float, warmup_steps: int) -> float:
        if step < warmup_steps:
            return _warmup(step, start, peak, warmup_steps)
        if self.shape == "cosine":
            return _cosine(step - warmup_steps, peak, end, self.total_steps - warmup_steps)
        if self.cooldown_steps == 0:
            return peak
        return _cosine(max(0, step - (self.total_steps - self.cooldown_steps)), peak, end, self.cooldown_steps)

    def table(self) -> list[tuple[str, ...]]:
        """The schedule at its turning points, as rows of text."""
        marks = {
            0: "start",
            self.freeze_last_layer_steps: "last layer freed",
            self.temperature_warmup_steps: "teacher warm",
            self.warmup_steps: "peak learning rate",
            self.total_steps - self.cooldown_steps: "cool-down" if self.cooldown_steps else "end",
            self.total_steps: "end",
        }
        rows: list[tuple[str, ...]] = [("step", "", "lr", "weight decay", "momentum", "teacher temperature")]
        for step in sorted(s for s in marks if s <= self.total_steps):
            v = self.at(step)
            rows.append(
                (
                    f"{step:,}",
                    marks[step],
                    f"{v.lr:.3g}",
                    f"{v.weight_decay:.4g}",
                    f"{v.momentum:.6g}",
                    f"{v.teacher_temperature:.3g}",
                )
            )
        return rows


def resolve_schedule(config: ScheduleConfig, global_batch: int, corpus_images: int | None = None) -> ResolvedSchedule:
    """Turn durations into steps and scale the learning rate to the batch."""

    def steps(name: str) -> int:
        return steps_of(name, getattr(config, name), global_batch, corpus_images)

    total, warmup, cooldown = steps("total"), steps("warmup"), steps("cooldown")
    if total < 1:
        raise UserError(f"total: {config.total} is no step at all; train for longer.")
    if warmup >= total:
        raise UserError(
            f"warmup: {config.warmup} ({warmup} steps) leaves nothing of total: {config.total} ({total} steps); "
            "shorten the warm-up or train for longer."
        )
    if config.shape == "cosine" and cooldown:
        raise UserError("cooldown belongs to shape: constant; remove it, or set shape: constant.")
    if warmup + cooldown > total:
        raise UserError(f"warmup and cooldown together ({warmup + cooldown} steps) exceed total ({total} steps).")
    return ResolvedSchedule(
        shape=config.shape,
        total_steps=total,
        warmup_steps=warmup,
        cooldown_steps=cooldown,
        temperature_warmup_steps=steps("teacher_temperature_warmup"),
        freeze_last_layer_steps=steps("freeze_last_layer"),
        lr=(0.0, config.base_lr * math.sqrt(global_batch / 1024), config.min_lr),
        weight_decay=(config.weight_decay_start, config.weight_decay_end),
        momentum=(config.momentum_start, config.momentum_end),
        temperature=(config.teacher_temperature_start, config.teacher_temperature_peak),
    )


def parse_duration(name: str, text: str) -> tuple[float, str]:
    """("80", "official epochs") of a duration; `name` is the key for the error message."""
    match = _DURATION.fullmatch(str(text))
    if match is None:
        raise UserError(
            f"{name}: '{text}' is not a duration; write a number with its unit, for example '12500 steps', "
            f"'80 official epochs' (of {OFFICIAL_EPOCH_STEPS} steps) or '2 data epochs'."
        )
    return float(match[1]), match[2].lower().rstrip("s")


def steps_of(name: str, text: str, global_batch: int, corpus_images: int | None = None) -> int:
    """A duration in optimizer steps."""
    count, unit = parse_duration(name, text)
    if unit == "step":
        return round(count)
    if unit == "official epoch":
        return round(count * OFFICIAL_EPOCH_STEPS)
    if corpus_images is None:
        raise UserError(f"{name}: '{text}' needs the number of images of the corpus, which is not known here.")
    return int(count * corpus_images / global_batch)


def _warmup(step: int, start: float, peak: float, steps: int) -> float:
    """Linear from `start` at step 0 to `peak` at step steps − 1, both reached; `peak` from then on."""
    if step >= steps - 1:
        return peak if steps != 1 or step >= 1 else start
    return start + step * ((peak - start) / (steps - 1))


def _cosine(step: int, start: float, end: float, steps: int) -> float:
    if step >= steps:
        return end
    return end + 0.5 * (start - end) * (1 + math.cos(math.pi * step / steps))
