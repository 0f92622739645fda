"""The keys of `optimizer` and `warm_start`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from panendofm.runtime.config import option
from panendofm.runtime.errors import UserError
from pretrain.objective.config import ObjectiveConfig
from pretrain.schedules import parse_duration


@dataclass
class OptimizerConfig:
    layerwise_decay: float = option(
        "Learning rate falls by this factor per block towards the input.", 1.0, above=0, high=1
    )
    patch_embed_lr_multiplier: float = option("Further factor for the patch embedding.", 0.2, low=0)
    instance_head_lr_multiplier: float = option(
        "Further factor for the head of instance classification, which starts at zero.", 10.0, above=0
    )
    beta1: float = option("AdamW's first beta.", 0.9, low=0, below=1)
    beta2: float = option("AdamW's second beta.", 0.999, low=0, below=1)
    epsilon: float = option("AdamW's epsilon.", 1e-8, above=0)
    clip_norm: float = option("Largest gradient norm of each student submodule.", 3.0, above=0)


@dataclass
class WarmStartConfig:
    """The start from a backbone without heads. Each part can be left out."""

    when: Literal["auto", "always", "never"] = option("auto: when the run starts from init.weights.", "auto")
    heads: str = option("Longest time for which the heads train alone; '0 steps' leaves it out.", "1 official epochs")
    heads_plateau: float = option(
        "End it when the loss falls by less than this share from one window to the next; 0: not before its time.",
        0.0,
        low=0,
        below=1,
    )
    heads_window: str = option("Length of such a window.", "100 steps")
    heads_lr: float | None = option(
        "Learning rate of the heads while they train alone, scaled as base_lr; null: schedule.base_lr.", None, above=0
    )
    ramp: str = option(
        "Time over which the recipe is ramped up afterwards; '0 steps': at once.", "4 official epochs", was="ease"
    )
    ramp_lr: bool = option("Raise the backbone's learning rate from 0.", True, was="ease_lr")
    ramp_weight_decay: bool = option("Raise the backbone's weight decay from 0.", True, was="ease_weight_decay")
    ramp_teacher: bool = option("Lower the momentum of the teacher's backbone from 1.", True, was="ease_teacher")
    ramp_drop_path: bool = option("Raise drop path from 0.", True, was="ease_drop_path")
    ramp_ibot: bool = option("Raise the weight of the iBOT loss from 0.", True, was="ease_ibot")
    ramp_layer_decay: float = option(
        "Further factor on the learning rate per block towards the input, at first; moves to 1. 1 leaves it out.",
        0.7,
        was="ease_layer_decay",
        above=0,
        high=1,
    )
    anchor: Literal["features", "gram", "none"] = option("What is held near the starting weights.", "features")
    anchor_weight: float = option("Weight of the anchor's loss.", 1.0, low=0)
    anchor_fade: str | None = option(
        "Time after the heads' phase in which the anchor fades to 0; null: it stays.", None
    )

    def check(self) -> None:
        for name in ("heads", "heads_window", "ramp", "anchor_fade"):
            if getattr(self, name) is not None:
                parse_duration(f"warm_start.{name}", getattr(self, name))

    def is_on(self, starts_from_weights: bool) -> bool:
        return self.when == "always" or (self.when == "auto" and starts_from_weights)

    def anchored(self, objective: ObjectiveConfig) -> ObjectiveConfig:
        """The objective with the warm start's anchor in it."""
        if self.anchor == "none" or self.anchor_weight == 0:
            return objective
        key = "feature_weight" if self.anchor == "features" else "gram_weight"
        if getattr(objective, key) > 0:
            raise UserError(
                f"objective.{key} and warm_start.anchor={self.anchor} are the same loss; leave one of them out."
            )
        if key == "feature_weight":
            return replace(objective, feature_weight=self.anchor_weight)
        return replace(objective, gram_weight=self.anchor_weight)
