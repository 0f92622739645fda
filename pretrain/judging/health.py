"""Is the run well? Steps that must be skipped, and figures that show a collapse."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pretrain.data.batch import Batch
from pretrain.objective.objective import Objective
from pretrain.parallel.collectives import gather_rows, sum_over_ranks, world_size
from runtime.config import option


@dataclass
class HealthConfig:
    """When to worry."""

    max_skipped_steps: int = option(
        "Non-finite steps in a row after which the run stops with a report, or goes back: guard.non_finite.", 10
    )
    collapse_every_steps: int = option("Steps between two measurements of feature spread and entropy; 0: none.", 100)


@torch.no_grad()
def collapse_figures(objective: Objective, batch: Batch, temperature: float) -> dict[str, float]:
    """What a collapse shows in first, on the teacher's view of the step's global crops, over all ranks.

    rank_me: how many directions the cls features use, at most min(samples, width); 1 is a complete collapse.
    teacher_entropy: mean entropy of the targets in nats; 0: one prototype each, ln K: no opinion.
    prototype_entropy: entropy of the mean target; 0: all samples share one prototype, ln K: all are used equally.
    """
    teacher = objective.teacher
    cls: Tensor = teacher["backbone"](batch.global_crops).cls.float()  # [2B, D]
    scores: Tensor = teacher["dino_head"](cls).float()  # [2B, K]
    targets = torch.softmax(scores / temperature, dim=-1)  # [2B, K]
    # Means over ranks, which hold equally many rows: all rows of 131,072 prototypes would be gigabytes.
    entropy = sum_over_ranks(_entropy(targets).mean()) / world_size()
    mean_target = sum_over_ranks(targets.mean(dim=0)) / world_size()  # [K]
    figures = {
        "rank_me": rank_me(gather_rows(cls)),
        "teacher_entropy": float(entropy),
        "prototype_entropy": float(_entropy(mean_target)),
    }
    for name in ("dino_targets", "ibot_targets"):
        center = getattr(getattr(objective, name), "center", None)
        if center is not None:
            figures[f"{name}_center_norm"] = float(center.norm())
    return figures


def rank_me(features: Tensor) -> float:
    """exp of the entropy of the normalised singular values of [N, D] (Garrido et al., 2023)."""
    singular = torch.linalg.svdvals(features.double())
    share = singular / singular.sum()
    entropy = float(-(share * (share + 1e-12).log()).sum())
    return math.exp(entropy) if math.isfinite(entropy) else math.nan


def _entropy(distribution: Tensor) -> Tensor:
    return -(distribution * distribution.clamp_min(1e-30).log()).sum(dim=-1)
