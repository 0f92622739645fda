"""Which objective a config asks for."""

from __future__ import annotations

from panendofm.backbone import Execution, ViTConfig
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.distillation.objective import DistillObjective, TeacherForm
from pretrain.objective.instance import InstanceObjective
from pretrain.objective.objective import Objective


def make_objective(
    vit: ViTConfig,
    config: ObjectiveConfig,
    execution: Execution | None = None,
    trainable: str = "all",
    corpus_images: int = 1,
    distill_teacher: TeacherForm | None = None,
) -> Objective:
    """`corpus_images`: how many images the shards hold; instance classification has a class for each.

    `distill_teacher`: the form of the network that a student is distilled from.
    """
    if config.kind == "distill":
        if distill_teacher is None:
            raise ValueError("distillation needs the form of its teacher")
        return DistillObjective(vit, config, distill_teacher, execution, trainable)
    if config.kind == "instance":
        return InstanceObjective(vit, config, execution, trainable, corpus_images)
    return DinoObjective(vit, config, execution, trainable)
