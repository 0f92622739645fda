"""The ways in which training goes on from the real weights, as keys of `python -m pretrain`.

The warm start begins with weights whose features were recentered on the unlabeled images (`backbone recenter`);
`FROM_RELEASED` names the ways that begin with the weights as they were released. What was searched (`SEARCH`) ran with
seed 100 and was judged on one half of the queries; all else runs with other seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from experiments.warm_start.arms import Arm

STEPS, EVERY_STEPS = 48, 16
_HEADS, _RAMP = "8 steps", "16 steps"
_OURS = (f"warm_start.heads={_HEADS}", f"warm_start.ramp={_RAMP}")
_NO_RAMP = ("warm_start.ramp=0 steps", "warm_start.ramp_layer_decay=1")
_RECIPE = "warm_start.when=never"
# The ramp and a third of what follows it: enough to see what a part does, at two thirds of the cost.
_SHORTER = ("run.stop_at=32 steps", "monitor.every_steps=32")
# Every way runs to its end, so that the curves can be compared; what the guard does is tested elsewhere.
GUARD_OFF = "regression_guard.when=never"
# What is measured: kNN of the labeled images at every evaluation, the others on the last checkpoint.
TARGET, PROBE, OTHERS, SOURCE = "target", "probe", "others", "source"
BEFORE = "before"  # of a point in a curve: the weights before they were recentered or given new registers


@dataclass(frozen=True)
class Group:
    """Ways that answer one question, the seeds that each gets, and what is measured at their ends."""

    title: str
    arms: dict[str, Arm]
    seeds: tuple[int, ...]
    ends: tuple[str, ...]


MAIN = {
    "recipe": Arm("the recipe as it is", (_RECIPE,)),
    "heads_first": Arm("heads first, then the recipe", (*_OURS, *_NO_RAMP, "warm_start.anchor=none")),
    "not_recentred": Arm("warm start without recentering", _OURS),
    "recentred_recipe": Arm("recentered, then the recipe as it is", (_RECIPE,)),
    "ours": Arm("warm start", _OURS),
}


def _part(title: str, *words: str) -> Arm:
    return Arm(f"warm start, {title}", (*_OURS, *_SHORTER, *words))


PARTS = {
    "no_ramp_lr": _part("full rate at once", "warm_start.ramp_lr=false"),
    "no_ramp_decay": _part("full weight decay at once", "warm_start.ramp_weight_decay=false"),
    "no_ramp_drop_path": _part("full drop path at once", "warm_start.ramp_drop_path=false"),
    "no_ramp_ibot": _part("full iBOT at once", "warm_start.ramp_ibot=false"),
    "no_ramp_teacher": _part("the teacher follows at once", "warm_start.ramp_teacher=false"),
    "no_layer_decay": _part("all blocks alike", "warm_start.ramp_layer_decay=1"),
    "no_anchor": _part("no anchor", "warm_start.anchor=none"),
    "gram": _part("Gram anchor", "warm_start.anchor=gram"),
    "fading": _part("anchor fades in 16 steps", "warm_start.anchor_fade=16 steps"),
    "low_rate": Arm("the recipe at a tenth of the rate", (_RECIPE, "schedule.base_lr=0.0004", *_SHORTER)),
}
FROM_RELEASED = ("recipe", "heads_first", "not_recentred", "low_rate")
RECIPE, RECENTERED_RECIPE = "recipe", "recentred_recipe"  # what the others are compared with, from the same weights

_MOVING_TEACHER = "schedule.momentum_start=0.97"  # 0.994 keeps 75% of the start for all of 48 steps
_NO_ANCHOR, _LOW_RATE = "warm_start.anchor=none", "schedule.base_lr=0.0005"
_LARGE_BATCH = (
    *("batch.images=24", "batch.microgroup_images=24", "schedule.total=24 steps", "schedule.warmup=4 steps"),
    *("run.stop_at=16 steps", "monitor.every_steps=16", "warm_start.heads=4 steps", "warm_start.ramp=8 steps"),
    *("schedule.freeze_last_layer=2 steps", "schedule.teacher_temperature_warmup=8 steps"),
)
MIXED = "data.sampling_weights={unlabelled: 0.7, drawn: 0.3}"  # of a shard set that holds both


SEARCH = {
    "as_it_is": _part("as it is"),
    "free": _part("no anchor, momentum from 0.97, rate 0.0005", _NO_ANCHOR, _MOVING_TEACHER, _LOW_RATE),
    "weak_anchor": _part("anchor of weight 0.3, momentum from 0.97", "warm_start.anchor_weight=0.3", _MOVING_TEACHER),
    "large_batch": _part("24 images, half as many steps", *_LARGE_BATCH),
    "no_ibot": _part("no masks and no iBOT", "objective.ibot_weight=0", "masks.crop_probability=0"),
    "prototypes": _part(
        "4,096 prototypes", "objective.dino_head.prototypes=4096", "objective.ibot_head.prototypes=4096"
    ),
    "large_crops": _part("global crops of half the image or more", "augment.global_scale_min=0.5"),
    "synthetic": _part("30% drawn frames", MIXED),
}

# 4.3 passes over the images instead of less than one: of the heads alone 1.6, then of all blocks, with no anchor.
_LONGER = (
    *("batch.images=24", "batch.microgroup_images=24", "schedule.total=240 steps", "schedule.warmup=40 steps"),
    *("run.stop_at=160 steps", "monitor.every_steps=40", "warm_start.heads=60 steps", "warm_start.ramp=40 steps"),
    *(
        "warm_start.heads_lr=0.004",
        "schedule.freeze_last_layer=4 steps",
        "schedule.teacher_temperature_warmup=60 steps",
    ),
    *(_NO_ANCHOR, "schedule.momentum_start=0.99"),
)
_SHARP_TARGETS = (
    *("objective.dino_head.prototypes=256", "objective.ibot_head.prototypes=256"),
    *("schedule.teacher_temperature_start=0.02", "schedule.teacher_temperature_peak=0.03"),
)
_GENTLE_CROPS = (
    *("augment.jitter_probability=0.2", "augment.brightness=0.2", "augment.contrast=0.2", "augment.saturation=0.1"),
    *("augment.grayscale_probability=0", "augment.solarize_probability=0", "augment.global_scale_min=0.5"),
)
LONGER = {
    "longer": Arm("four passes, rate 0.0005", (*_LONGER, _LOW_RATE)),
    "longer_sharp": Arm(
        "four passes, rate 0.001, few prototypes, sharp targets, gentle crops",
        (*_LONGER, "schedule.base_lr=0.001", *_SHARP_TARGETS, *_GENTLE_CROPS),
    ),
}

# What a stage begins with, where that is not the recentered weights: a run's best checkpoint, or a part of the weights.
OURS, WITHOUT_REGISTERS = "ours_0", "without_registers"
STARTS = {"high_resolution": OURS, "high_resolution_gram": OURS, "new_registers": WITHOUT_REGISTERS}
_HIGH_RESOLUTION = (
    *("augment.global_px=224", "augment.local_px=84", "batch.images=8", "batch.microgroup_images=8"),
    *("schedule.total=16 steps", "schedule.warmup=4 steps", "schedule.base_lr=0.001", "monitor.every_steps=16"),
    *("warm_start.heads=4 steps", "warm_start.ramp=6 steps", "schedule.teacher_temperature_warmup=0 steps"),
)
STAGES = {
    "high_resolution": Arm("112 → 224 pixels, features anchored", _HIGH_RESOLUTION),
    "high_resolution_gram": Arm("112 → 224 pixels, Gram anchor", (*_HIGH_RESOLUTION, "warm_start.anchor=gram")),
    "new_registers": Arm("new registers on weights without any", (*_OURS, *_SHORTER, "init.new_registers=true")),
}

RELEASED = ("ours", 0)  # way and seed

GROUPS = {
    "main": Group("The ways", MAIN, (0, 1, 2), (PROBE, OTHERS, SOURCE)),
    "parts": Group("The warm start less one part, and a lower rate", PARTS, (0,), ()),
    "stages": Group("Later stages", STAGES, (0,), (PROBE,)),
    "search": Group("What was searched for a gain", SEARCH, (100,), (PROBE,)),
    "longer": Group("Longer runs", LONGER, (100,), (PROBE,)),
}
AFTER = {"stages": "main"}  # a group, and the one whose best checkpoint it goes on from
NOT_UNASKED = ("longer",)  # 20 minutes of a core each
