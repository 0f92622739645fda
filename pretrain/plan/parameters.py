"""Parameters of a run, counted on the objective itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from pretrain.config import PretrainConfig
from pretrain.objective.objective import Objective


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters. The teacher has as many as the student."""

    backbone: int
    dino_head: int
    ibot_head: int  # 0 when patches share the DINO head
    anchor: int  # Gram anchor, 0 when it is off

    @property
    def student(self) -> int:
        return self.backbone + self.dino_head + self.ibot_head


def count_parameters(config: PretrainConfig) -> Parameters:
    """From the real objective, built without memory for its tensors."""
    with torch.device("meta"):
        objective = Objective(config.model.vit(), config.trained_objective)
    parts = {name: _count(module) for name, module in objective.student.items()}
    return Parameters(
        backbone=parts["backbone"],
        dino_head=parts["dino_head"],
        ibot_head=parts.get("ibot_head", 0),
        anchor=_count(objective.gram_anchor) if objective.gram_anchor is not None else 0,
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def checkpoint_bytes(parameters: Parameters) -> int:
    """Student, teacher (and anchor), and AdamW's two averages, all fp32."""
    return 4 * (4 * parameters.student + parameters.anchor)
