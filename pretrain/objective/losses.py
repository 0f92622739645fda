"""DINO, iBOT and KoLeo: plain functions of scores and features, in fp32 whatever the compute type."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from pretrain.parallel.collectives import gather_rows, rank
from runtime.errors import UserError

STUDENT_TEMPERATURE = 0.1
_EPSILON = 1e-8
# Two unit vectors nearer than this are the same frame. KoLeo's force is 1/distance: below the floor it is rounding
# noise times 1e8 that cancels only in exact arithmetic (in bf16, four equal frames made the backbone's gradient eight
# times too large). So such a pair adds a constant to the loss and no force.
_SAME_FRAME_DISTANCE = 1e-4


def cross_entropy(targets: Tensor, scores: Tensor) -> Tensor:
    """−Σ_k t_k · log softmax(s / 0.1)_k for every row: [..., B, K] → [..., B]. Targets need not sum to 1."""
    with torch.autocast(scores.device.type, enabled=False):
        logits = scores.float() / STUDENT_TEMPERATURE  # [..., B, K]
        targets = targets.float()
        return targets.sum(dim=-1) * torch.logsumexp(logits, dim=-1) - (targets * logits).sum(dim=-1)


def dino_terms(local_crops: int) -> int:
    """Pairs of student and teacher crops: two global crops meet each other, every local crop meets both."""
    return 2 + 2 * local_crops


def dino_global_loss(targets: Tensor, scores: Tensor, local_crops: int) -> Tensor:
    """Student's global crops against the teacher's other global crop. targets, scores: [2, B, K], both crop-major."""
    swapped = targets.flip(0)  # crop A's student meets crop B's teacher
    return cross_entropy(swapped, scores).mean() * 2 / dino_terms(local_crops)


def dino_local_loss(targets: Tensor, scores: Tensor) -> Tensor:
    """Student's local crops against both of the teacher's global crops. targets [2, B, K], scores [L, B, K]."""
    local_crops = len(scores)
    if local_crops == 0:
        return scores.float().sum()  # 0, and still part of the graph
    # The cross-entropy is linear in its target: Σ_g CE(t_g, s) = CE(Σ_g t_g, s).
    both = targets.sum(dim=0)  # [B, K]
    return cross_entropy(both, scores).mean(dim=-1).sum() / dino_terms(local_crops)


def ibot_loss(targets: Tensor, scores: Tensor, weights: Tensor, global_crops: int) -> Tensor:
    """Masked patches: targets, scores [M, K]; weights [M] = 1 / masked patches of that crop; global_crops = 2B."""
    return (cross_entropy(targets, scores) * weights.float()).sum() / global_crops


def koleo_loss(features: Tensor, across_ranks: bool = False) -> Tensor:
    """−mean log(distance to the nearest other sample) of one crop's cls tokens, [B, D].

    The neighbour is sought within the rank's batch, or over all ranks (an option of DINOv3).
    """
    with torch.autocast(features.device.type, enabled=False):
        mine = F.normalize(features.float(), dim=-1, eps=_EPSILON)  # [B, D]
        everyone = gather_rows(mine) if across_ranks else mine  # [A, D]
        offset = rank() * len(mine) if across_ranks else 0
        if len(everyone) < 2:
            raise UserError(
                "KoLeo needs two images or more to compare; raise the batch size per rank, set koleo_across_ranks=true "
                "when there are several ranks, or set koleo_weight=0."
            )
        with torch.no_grad():
            similarity = mine @ everyone.T  # [B, A]
            rows = torch.arange(len(mine), device=mine.device)
            similarity[rows, rows + offset] = -2  # not oneself; inner products of unit vectors are ≥ −1
            neighbour = similarity.argmax(dim=1)  # [B]
        distance = F.pairwise_distance(mine, everyone[neighbour], p=2, eps=_EPSILON)  # [B]
        return -torch.log(distance.clamp_min(_SAME_FRAME_DISTANCE) + _EPSILON).mean()
