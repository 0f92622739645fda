"""The arms as keys of `python -m pretrain`; PROTOCOL.md says why these."""

from __future__ import annotations

import math
from dataclasses import dataclass

BATCH_IMAGES = 16
PRESENTATIONS_PER_STEP = 2 * BATCH_IMAGES  # a presentation is one global crop of the student
QUARTERS = 4


@dataclass(frozen=True)
class Arm:
    title: str
    words: tuple[str, ...]
    presentations: int

    @property
    def steps(self) -> int:
        return self.presentations // PRESENTATIONS_PER_STEP

    @property
    def quarter_steps(self) -> int:
        """Between two points of the curve."""
        return -(-self.steps // QUARTERS)


def _base_lr(rate: float) -> str:
    """A learning rate at this batch size, as `schedule.base_lr` wants it: that of a batch of 1,024."""
    return f"schedule.base_lr={rate / math.sqrt(BATCH_IMAGES / 1024):.6g}"


def instance(rate: float, trainable: str, presentations: int = 40_000) -> Arm:
    title = f"instance, {trainable}, rate {rate:g}"
    return Arm(title, ("objective.kind=instance", f"model.trainable={trainable}", _base_lr(rate)), presentations)


_SMALL_HEADS = tuple(
    f"objective.{head}.{size}"
    for head in ("dino_head", "ibot_head")
    for size in ("prototypes=1024", "bottleneck=256", "hidden=1024")
)
_LOCAL_CROPS = ("augment.local_crops=4", "augment.local_px=42", "augment.local_scale_max=0.2")


def dinov2(rate: float, trainable: str = "all", anchor: bool = False, presentations: int = 20_000) -> Arm:
    title = f"dinov2, {trainable}, rate {rate:g}{', anchored' if anchor else ''}"
    words = (*_SMALL_HEADS, *_LOCAL_CROPS, f"model.trainable={trainable}", _base_lr(rate))
    return Arm(title, (*words, f"warm_start.anchor={'features' if anchor else 'none'}"), presentations)


TUNING_SEED = 0
FRESH_SEEDS = (1, 2, 3, 4, 5)

ARMS = {
    "I1": instance(1e-4, "last:2"),
    "I2": instance(1e-4, "last:4"),
    "I3": instance(1e-4, "lora:16"),
    "I4": instance(3e-5, "last:2"),
    "I5": instance(3e-4, "last:2"),
    "I6": instance(1e-4, "all"),
    "D1": dinov2(2.5e-5),
    "D2": dinov2(1e-4),
    "D3": dinov2(4e-4),
    "D4": dinov2(2.5e-5, anchor=True),
    "D5": dinov2(1e-4, anchor=True),
    "D6": dinov2(4e-4, anchor=True),
    "D7": dinov2(1e-4, "last:2", presentations=30_000),
    "D8": dinov2(1e-4, "last:4", presentations=30_000),
    "D9": dinov2(1e-4, "lora:16", presentations=30_000),
}
