"""Gram anchoring (from DINOv3): keep the similarities between patches as a frozen model saw them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def gram_loss(student: Tensor, anchor: Tensor) -> Tensor:
    """Mean squared difference of the patch-by-patch cosine similarities within each image: [N, P, D] twice.

    It holds the geometry of the patches, not their values: any rotation of the features leaves it at 0.
    """
    with torch.autocast(student.device.type, enabled=False):
        x = F.normalize(student.float(), dim=-1)  # [N, P, D]
        y = F.normalize(anchor.float(), dim=-1)  # [N, P, D]
        return F.mse_loss(x @ x.transpose(1, 2), y @ y.transpose(1, 2))  # of [N, P, P]
