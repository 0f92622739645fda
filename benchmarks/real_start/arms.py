"""The ways in which training goes on from the real weights, as keys of `python -m pretrain`.

What was searched (`SEARCH`) ran with seed 100 and was judged on one half of the queries; what follows from it
(`MAIN["tuned"]`) runs with other seeds and is judged on the other half.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.warm_start.arms import Arm

STEPS, EVERY_STEPS = 48, 16
_HEADS, _RAMP = "8 steps", "16 steps"
_OURS = (f"warm_start.heads={_HEADS}", f"warm_start.ramp={_RAMP}")
_NO_RAMP = ("warm_start.ramp=0 steps", "warm_start.ramp_layer_decay=1")
# The ramp and a third of what follows it: enough to see what a part does, at two thirds of the cost.
_SHORTER = ("run.stop_at=32 steps", "monitor.every_steps=32")
# Every way runs to its end, so that the curves can be compared; what the guard does is tested elsewhere.
GUARD_OFF = "regression_guard.when=never"
# What is measured on the last checkpoint, beside kNN of the labelled pictures at every evaluation.
PROBE, OTHERS, SOURCE = "probe", "others", "source"
AVERAGED, AVERAGED_PROBE = "averaged", "averaged_probe"  # of the mean of the starting and the last weights


@dataclass(frozen=True)
class Group:
    """Ways that answer one question, the seeds that each gets, and what is measured at their ends."""

    title: str
    arms: dict[str, Arm]
    seeds: tuple[int, ...]
    ends: tuple[str, ...]


# A teacher that moves within 48 steps (0.994 keeps 75% of the start for all of them), and no anchor.
_FREE = (*_OURS, "warm_start.anchor=none", "schedule.momentum_start=0.97", "model.drop_path=0")
_GENTLE_COLOUR = (
    *("augment.jitter_probability=0.3", "augment.brightness=0.2", "augment.contrast=0.2", "augment.saturation=0.1"),
    *("augment.grayscale_probability=0", "augment.solarise_probability=0"),
)


def _free(title: str, rate: float, *words: str) -> Arm:
    return Arm(f"{title}, rate {rate:g}", (*_FREE, f"schedule.base_lr={rate:g}", *_SHORTER, *words))


# With 24 crops a step, Sinkhorn-Knopp gives nearly every crop prototypes of its own, and KoLeo parts neighbours.
_CENTERING, _NO_KOLEO = "objective.targets=centering", "objective.koleo_weight=0"
_MORE_KOLEO = "objective.koleo_weight=0.4"
_LONGER = ("schedule.total=96 steps", "monitor.every_steps=24", "run.stop_at=96 steps")
MIXED = "data.weights={unlabelled: 0.7, drawn: 0.3}"  # of a shard set that holds both

SEARCH = {
    "free": _free("no anchor, momentum from 0.97", 0.0005),
    "longer": _free("96 steps", 0.0005, *_LONGER),
    "longer_fast": _free("96 steps", 0.0015, *_LONGER),
    "centering": _free("centering", 0.0005, _CENTERING),
    "centering_no_koleo": _free("centering, without KoLeo", 0.0005, _CENTERING, _NO_KOLEO),
    "no_koleo": _free("without KoLeo", 0.0005, _NO_KOLEO),
    "more_koleo": _free("KoLeo four times", 0.0005, _MORE_KOLEO),
    "koleo_longer": _free("KoLeo four times, 96 steps", 0.0005, _MORE_KOLEO, *_LONGER),
    "koleo_most": _free("KoLeo ten times", 0.0005, "objective.koleo_weight=1"),
    "slow": _free("the same as the first", 0.0002),
    "gentle": _free("little change of colour", 0.0005, *_GENTLE_COLOUR),
    "synthetic": _free("30% drawn frames", 0.0005, MIXED),
}

MAIN = {
    "recipe": Arm("the recipe as it is", ("warm_start.when=never",)),
    "heads_first": Arm("heads first, then the recipe", (*_OURS, *_NO_RAMP, "warm_start.anchor=none")),
    "ours": Arm("warm start", _OURS),
    "held": Arm("warm start, anchor of weight 3", (*_OURS, "warm_start.anchor_weight=3")),
    # The highest kNN of the search.
    "tuned": Arm("chosen by the search: no anchor, KoLeo ten times, rate 0.0005, 32 steps", SEARCH["koleo_most"].words),
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
    "low_rate": Arm(
        "the recipe at a tenth of the rate", ("warm_start.when=never", "schedule.base_lr=0.0004", *_SHORTER)
    ),
    "fading": _part("anchor fades in 16 steps", "warm_start.anchor_fade=16 steps"),
}

# What a stage begins with, where that is not the released weights: a run's best checkpoint, or a part of the weights.
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
    "main": Group("The ways", MAIN, (0, 1, 2), (PROBE, OTHERS, SOURCE, AVERAGED)),
    "parts": Group("The warm start less one part, and a lower rate", PARTS, (0,), ()),
    "search": Group("What was searched for a gain", SEARCH, (100,), (PROBE,)),
    "stages": Group("Later stages", STAGES, (0,), (PROBE,)),
}
