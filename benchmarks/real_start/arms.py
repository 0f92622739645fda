"""The ways in which training goes on from the real weights, as keys of `python -m pretrain`.

What was searched (`SEARCH`) ran with seed 100 and was judged on one half of the queries; what follows from it
(`MAIN["tuned"]`) runs with other seeds and is judged on the other half.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.warm_start.arms import Arm

STEPS, EVERY_STEPS = 60, 20
_HEADS, _RAMP = "10 steps", "20 steps"
_OURS = (f"warm_start.heads={_HEADS}", f"warm_start.ramp={_RAMP}")
_NO_RAMP = ("warm_start.ramp=0 steps", "warm_start.ramp_layer_decay=1")
# Every way runs to its end, so that the curves can be compared; what the guard does is tested elsewhere.
GUARD_OFF = "regression_guard.when=never"


@dataclass(frozen=True)
class Group:
    """Ways that answer one question, and the seeds that each gets."""

    title: str
    arms: dict[str, Arm]
    seeds: tuple[int, ...]


# A teacher that moves within 60 steps (0.994 keeps 70% of the start for all of them), and no anchor.
_FREE = (*_OURS, "warm_start.anchor=none", "schedule.momentum_start=0.97", "model.drop_path=0")
_GENTLE_COLOUR = (
    *("augment.jitter_probability=0.3", "augment.brightness=0.2", "augment.contrast=0.2", "augment.saturation=0.1"),
    *("augment.grayscale_probability=0", "augment.solarise_probability=0"),
)


def _free(title: str, rate: float, *words: str) -> Arm:
    return Arm(f"{title}, rate {rate:g}", (*_FREE, f"schedule.base_lr={rate:g}", *words))


def _prototypes(count: int) -> tuple[str, str]:
    return f"objective.dino_head.prototypes={count}", f"objective.ibot_head.prototypes={count}"


_HALF_AS_MANY_STEPS = (
    *("batch.images=64", "batch.microgroup_images=64", "schedule.total=30 steps", "monitor.every_steps=10"),
    *("warm_start.heads=5 steps", "warm_start.ramp=10 steps"),
)

_LONGER = (
    *("schedule.total=160 steps", "monitor.every_steps=40"),
    *("warm_start.heads=20 steps", "warm_start.ramp=40 steps"),
)

SEARCH = {
    "longer": _free("no anchor, momentum from 0.97, 160 steps", 0.001, *_LONGER),
    "free": _free("no anchor, momentum from 0.97", 0.001),
    "free_slow": _free("the same", 0.0003),
    "free_fast": _free("the same", 0.003),
    "layer_decay": _free("layer decay 0.6", 0.002, "optimizer.layerwise_decay=0.6"),
    "no_ibot": _free("without iBOT", 0.001, "objective.ibot_weight=0"),
    "no_koleo": _free("without KoLeo", 0.001, "objective.koleo_weight=0"),
    "gentle_colour": _free("little change of colour", 0.001, *_GENTLE_COLOUR),
    "few_prototypes": _free("128 prototypes", 0.001, *_prototypes(128)),
    "many_prototypes": _free("8,192 prototypes", 0.001, *_prototypes(8192)),
    "no_local": _free("global crops only", 0.001, "augment.local_crops=0"),
    "larger_crops": _free("global crops of at least 60%", 0.001, "augment.global_scale_min=0.6"),
    "hidden_more": _free("masks of 30 to 70%", 0.001, "masks.ratio_min=0.3", "masks.ratio_max=0.7"),
    "teacher_fast": _free("momentum from 0.9", 0.001, "schedule.momentum_start=0.9"),
    "batch_64": _free("batches of 64, half the steps", 0.001, *_HALF_AS_MANY_STEPS),
    "anchored": _free(
        "features anchored, weight 0.3", 0.001, "warm_start.anchor=features", "warm_start.anchor_weight=0.3"
    ),
}

MAIN = {
    "recipe": Arm("the recipe as it is", ("warm_start.when=never",)),
    "heads_first": Arm("heads first, then the recipe", (*_OURS, *_NO_RAMP, "warm_start.anchor=none")),
    "ours": Arm("warm start", _OURS),
}

PARTS = {
    "no_ramp_lr": Arm("warm start, full rate at once", (*_OURS, "warm_start.ramp_lr=false")),
    "no_ramp_decay": Arm("warm start, full weight decay at once", (*_OURS, "warm_start.ramp_weight_decay=false")),
    "no_ramp_drop_path": Arm("warm start, full drop path at once", (*_OURS, "warm_start.ramp_drop_path=false")),
    "no_ramp_ibot": Arm("warm start, full iBOT at once", (*_OURS, "warm_start.ramp_ibot=false")),
    "no_ramp_teacher": Arm("warm start, the teacher follows at once", (*_OURS, "warm_start.ramp_teacher=false")),
    "no_layer_decay": Arm("warm start, all blocks alike", (*_OURS, "warm_start.ramp_layer_decay=1")),
    "no_anchor": Arm("warm start without an anchor", (*_OURS, "warm_start.anchor=none")),
    "gram": Arm("warm start with a Gram anchor", (*_OURS, "warm_start.anchor=gram")),
    "fading": Arm("warm start, anchor fades in 40 steps", (*_OURS, "warm_start.anchor_fade=40 steps")),
    "low_rate": Arm("the recipe at a tenth of the rate", ("warm_start.when=never", "schedule.base_lr=0.0004")),
}

# What a stage begins with, where that is not the released weights: a run's best checkpoint, or a part of the weights.
OURS, WITHOUT_REGISTERS = "ours_0", "without_registers"
STARTS = {"high_resolution": OURS, "high_resolution_gram": OURS, "new_registers": WITHOUT_REGISTERS}
_HIGH_RESOLUTION = (
    *("augment.global_px=224", "augment.local_px=84", "batch.images=16", "batch.microgroup_images=16"),
    *("schedule.total=20 steps", "schedule.warmup=4 steps", "schedule.base_lr=0.001", "monitor.every_steps=10"),
    *("warm_start.heads=6 steps", "warm_start.ramp=8 steps", "schedule.teacher_temperature_warmup=0 steps"),
)
STAGES = {
    "high_resolution": Arm("112 → 224 pixels, features anchored", _HIGH_RESOLUTION),
    "high_resolution_gram": Arm("112 → 224 pixels, Gram anchor", (*_HIGH_RESOLUTION, "warm_start.anchor=gram")),
    "new_registers": Arm("new registers on weights without any", (*_OURS, "init.new_registers=true")),
}

RELEASED = ("ours", 0)  # way and seed

GROUPS = {
    "search": Group("What was searched for a gain", SEARCH, (100,)),
    "main": Group("The ways", MAIN, (0, 1, 2)),
    "parts": Group("The warm start less one part, and a lower rate", PARTS, (0,)),
    "stages": Group("Later stages", STAGES, (0,)),
}
