"""Parameters of a run, counted on the objective itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pretrain.objective.objective import Objective


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters. The teacher has as many as the student, but for adapters."""

    backbone: int
    dino_head: int
    ibot_head: int  # 0 when patches share the DINO head
    trained: int  # of all these, the ones that have gradients and AdamW's averages
    anchor: int  # the starting weights that features are held near, 0 when there is none

    @property
    def student(self) -> int:
        return self.backbone + self.dino_head + self.ibot_head

    @property
    def checkpoint_bytes(self) -> int:
        """Student, teacher (and anchor), and AdamW's two averages of what trains, all fp32."""
        return 4 * (2 * self.student + 2 * self.trained + self.anchor)


def count_parameters(objective: Objective) -> Parameters:
    parts = {name: _count(module) for name, module in objective.student.items()}
    return Parameters(
        backbone=parts["backbone"],
        dino_head=parts["dino_head"],
        ibot_head=parts.get("ibot_head", 0),
        trained=sum(p.numel() for p in objective.student.parameters() if p.requires_grad),
        anchor=_count(objective.anchor_backbone) if objective.anchor_backbone is not None else 0,
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
