"""Parameters of a run, counted on the objective itself."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from pretrain.objective.objective import BACKBONE, Objective


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters. The teacher has as many as the student, but for adapters."""

    backbone: int
    heads: dict[str, int]  # by their names in the student
    trained: int  # of all these, the ones that have gradients and AdamW's averages
    anchor: int  # networks that stay as they are: the starting weights as an anchor, a teacher to distill from

    @property
    def student(self) -> int:
        return self.backbone + sum(self.heads.values())

    @property
    def checkpoint_bytes(self) -> int:
        """Student, teacher (and anchor), and AdamW's two averages of what trains, all fp32."""
        return 4 * (2 * self.student + 2 * self.trained + self.anchor)


def count_parameters(objective: Objective) -> Parameters:
    parts = {name: _count(module) for name, module in objective.student.items()}
    return Parameters(
        backbone=parts.pop(BACKBONE),
        heads=parts,
        trained=sum(p.numel() for p in objective.student.parameters() if p.requires_grad),
        anchor=sum(map(_count, objective.frozen_networks())),
    )


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
