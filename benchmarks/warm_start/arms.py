"""The ways in which training goes on, as keys of `python -m pretrain`."""

from __future__ import annotations

from dataclasses import dataclass

STEPS, EVERY_STEPS = 120, 20
HEADS, EASE = "20 steps", "40 steps"


@dataclass(frozen=True)
class Arm:
    title: str
    words: tuple[str, ...]


_OURS = (f"warm_start.heads={HEADS}", f"warm_start.ease={EASE}")
_NO_GUARD = "guard.when=never"
_NO_EASE = ("warm_start.ease=0 steps", "warm_start.ease_layer_decay=1")

ARMS = {
    "recipe": Arm("the recipe as it is", ("warm_start.when=never", _NO_GUARD)),
    "heads_first": Arm("heads first, then the recipe", (*_OURS, *_NO_EASE, "warm_start.anchor=none", _NO_GUARD)),
    "ours": Arm("warm start", _OURS),
    "no_heads": Arm("warm start without the heads' phase", (*_OURS, "warm_start.heads=0 steps", _NO_GUARD)),
    "no_ease": Arm("warm start without easing in", (*_OURS, *_NO_EASE, _NO_GUARD)),
    "no_anchor": Arm("warm start without the anchor", (*_OURS, "warm_start.anchor=none", _NO_GUARD)),
}
