"""The ways in which training goes on, as keys of `python -m pretrain`."""

from __future__ import annotations

from dataclasses import dataclass

STEPS, EVERY_STEPS = 120, 20
HEADS, RAMP = "20 steps", "40 steps"


@dataclass(frozen=True)
class Arm:
    title: str
    words: tuple[str, ...]


_OURS = (f"warm_start.heads={HEADS}", f"warm_start.ramp={RAMP}")
_NO_GUARD = "regression_guard.when=never"
_NO_RAMP = ("warm_start.ramp=0 steps", "warm_start.ramp_layer_decay=1")

ARMS = {
    "recipe": Arm("the recipe as it is", ("warm_start.when=never", _NO_GUARD)),
    "heads_first": Arm("heads first, then the recipe", (*_OURS, *_NO_RAMP, "warm_start.anchor=none", _NO_GUARD)),
    "ours": Arm("warm start", _OURS),
    "no_heads": Arm("warm start without the heads' phase", (*_OURS, "warm_start.heads=0 steps", _NO_GUARD)),
    "no_ramp": Arm("warm start without the ramp", (*_OURS, *_NO_RAMP, _NO_GUARD)),
    "no_anchor": Arm("warm start without the anchor", (*_OURS, "warm_start.anchor=none", _NO_GUARD)),
}
