"""A tiny teacher and its students, and the losses of a distillation by their definition, in doubles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panendofm.backbone import ViTConfig, vit_config
from pretrain.data.batch import Batch, make_batch
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.distillation.objective import DistillObjective, TeacherForm

SMALL = vit_config("vit_test", image_px=28)
LARGE = replace(SMALL, width=2 * SMALL.width, depth=3)
WIDE = replace(SMALL, width=96, heads=4, depth=1)
DINO = HeadConfig(prototypes=24, bottleneck=8, hidden=16)
IBOT = HeadConfig(prototypes=20, bottleneck=8, hidden=16)
TEMPERATURE = 0.07
L, N = 2, 4


def batch_of(images: int) -> Batch:
    torch.manual_seed(1)
    masks = torch.zeros(2 * images, N, dtype=torch.bool)
    masks[0, 1] = True  # what the loader masks must not matter
    return make_batch(torch.randn(2 * images, 3, 28, 28), torch.randn(L * images, 3, 14, 14), masks)


def objective_of(form: TeacherForm, student: ViTConfig = SMALL) -> DistillObjective:
    torch.manual_seed(0)
    objective = DistillObjective(student, ObjectiveConfig(kind="distill"), form)
    with torch.no_grad():  # the first weights are so small that all tokens are alike
        for parameter in objective.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
    return objective


def sinkhorn(scores: Tensor) -> Tensor:
    """The textbook form."""
    q = torch.exp(scores.double() / TEMPERATURE).T
    q /= q.sum()
    for _ in range(3):
        q /= q.sum(dim=1, keepdim=True) * len(q)
        q /= q.sum(dim=0, keepdim=True) * q.shape[1]
    return (q * q.shape[1]).T


def cross_entropy(targets: Tensor, scores: Tensor) -> Tensor:
    return -(targets * F.log_softmax(scores.double() / 0.1, dim=-1)).sum(dim=-1)


@torch.no_grad()
def prototype_losses(
    objective: DistillObjective, student: Mapping[str, nn.Module], batch: Batch, patch_head: str
) -> dict[str, float]:
    teacher, B = objective.distill_teacher, batch.images
    seen, own = teacher["backbone"](batch.global_crops), student["backbone"](batch.global_crops)
    local = student["backbone"](batch.local_crops).cls
    targets = sinkhorn(teacher["dino_head"](seen.cls)).reshape(2, B, -1)
    scores = student["dino_head"](own.cls).reshape(2, B, -1)
    terms = 2 + 2 * L
    crossed = sum(cross_entropy(targets[1 - g], scores[g]).mean() for g in range(2))
    local_scores = student["dino_head"](local).reshape(L, B, -1)
    of_local = sum(cross_entropy(targets[g], local_scores[i]).mean() for i in range(L) for g in range(2))
    patch_targets = sinkhorn(teacher[patch_head](seen.patches.flatten(0, 1)))
    of_patches = cross_entropy(patch_targets, student[patch_head](own.patches.flatten(0, 1))).mean()
    return {"dino_global": float(crossed) / terms, "dino_local": float(of_local) / terms, "ibot": float(of_patches)}


@torch.no_grad()
def feature_losses(objective: DistillObjective, student: Mapping[str, nn.Module], batch: Batch) -> dict[str, float]:
    seen, own = objective.distill_teacher["backbone"](batch.global_crops), student["backbone"](batch.global_crops)
    expected = {}
    for name, wanted, tokens in (("cls", seen.cls, own.cls), ("patch", seen.patches, own.patches)):
        rows = wanted.flatten(0, -2).double()
        error = student[f"{name}_projection"](tokens.flatten(0, -2)).double() - rows
        share = error.var(dim=0, correction=0).mean() / rows.var(dim=0, correction=0).mean()
        expected[f"{name}_features"] = float(share)
    return expected
