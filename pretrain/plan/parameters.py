"""Parameters of a run, counted on the objective itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pretrain.objective.objective import Objective


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters. The teacher has as many as the student."""

    backbone: int
    dino_head: int
    ibot_head: int  # 0 when patches share the DINO head
    anchor: int  # the starting weights that features are held near, 0 when there is none

    @property
    def student(self) -> int:
        return self.backbone + self.dino_head + self.ibot_head

    @property
    def checkpoint_bytes(self) -> int:
        """Student, teacher (and anchor), and AdamW's two averages, all fp32."""
        return 4 * (4 * self.student + self.anchor)


def count_parameters(objective: Objective) -> Parameters:
    parts = {name: _count(module) for name, module in objective.student.items()}
    return Parameters(
        backbone=parts["backbone"],
        dino_head=parts["dino_head"],
        ibot_head=parts.get("ibot_head", 0),
        anchor=_count(objective.anchor_backbone) if objective.anchor_backbone is not None else 0,
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
