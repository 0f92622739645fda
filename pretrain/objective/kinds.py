"""Which objective a config asks for."""

from __future__ import annotations

from panendofm.backbone import Execution, ViTConfig
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.instance import InstanceObjective
from pretrain.objective.objective import Objective


def make_objective(
    vit: ViTConfig,
    config: ObjectiveConfig,
    execution: Execution | None = None,
    trainable: str = "all",
    corpus_images: int = 1,
) -> Objective:
    """`corpus_images`: how many images the shards hold; instance classification has a class for each."""
    if config.kind == "instance":
        return InstanceObjective(vit, config, execution, trainable, corpus_images)
    return DinoObjective(vit, config, execution, trainable)
