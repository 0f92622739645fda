"""What DINO and iBOT compare with what, and at which weight; KoLeo. All in fp32, whatever the compute type."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.runtime.errors import UserError
from pretrain.objective.prototype_loss import LossTargets
from pretrain.parallel.collectives import gather_rows, rank

_EPSILON = 1e-8
# Two unit vectors nearer than this are the same frame. KoLeo's force is 1/distance: below the floor it is rounding
# noise times 1e8 that cancels only in exact arithmetic (in bf16, four equal frames made the backbone's gradient eight
# times too large). So such a pair adds a constant to the loss and no force.
_SAME_FRAME_DISTANCE = 1e-4


def dino_terms(local_crops: int) -> int:
    """Pairs of student and teacher crops: two global crops meet each other, every local crop meets both."""
    return 2 + 2 * local_crops


def dino_global(targets: Tensor, local_crops: int, weight: float) -> LossTargets:
    """Student's global crops against the teacher's other global crop: targets [2, B, K], rows 2B, both crop-major."""
    swapped = targets.flip(0).flatten(0, 1)  # crop A's student meets crop B's teacher
    of_row = 2 * weight / dino_terms(local_crops) / len(swapped)
    return LossTargets(swapped, None, targets.new_full((len(swapped),), of_row))


def dino_local(targets: Tensor, local_crops: int, weight: float) -> LossTargets:
    """Student's local crops against both of the teacher's global crops: targets [2, B, K], rows L·B, crop-major."""
    # The cross-entropy is linear in its target: Σ_g CE(t_g, s) = CE(Σ_g t_g, s).
    both = targets.sum(dim=0)  # [B, K]
    images = torch.arange(len(both), device=both.device).repeat(local_crops)  # [L·B]
    of_row = weight / dino_terms(local_crops) / len(both)
    return LossTargets(both, images, targets.new_full((len(images),), of_row))


def ibot(targets: Tensor, masked_weights: Tensor, global_crops: int, weight: float) -> LossTargets:
    """Masked patches: targets [M, K]; masked_weights [M] = 1 / masked patches of that crop; global_crops = 2B."""
    return LossTargets(targets, None, masked_weights.float() * (weight / global_crops))


def koleo_loss(features: Tensor, across_ranks: bool = False) -> Tensor:
    """−mean log(distance to the nearest other sample) of one crop's cls tokens, [B, D].

    The neighbor is sought within the rank's batch, or over all ranks (an option of DINOv3).
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
            neighbor = similarity.argmax(dim=1)  # [B]
        distance = F.pairwise_distance(mine, everyone[neighbor], p=2, eps=_EPSILON)  # [B]
        return -torch.log(distance.clamp_min(_SAME_FRAME_DISTANCE) + _EPSILON).mean()
