"""Anchors to a frozen model: the similarities between patches (Gram anchoring, from DINOv3), or the features."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from panendofm.backbone import Tokens


def gram_loss(student: Tensor, anchor: Tensor) -> Tensor:
    """Mean squared difference of the patch-by-patch cosine similarities within each image: [N, P, D] twice.

    It holds the geometry of the patches, not their values: any rotation of the features leaves it at 0.
    """
    with torch.autocast(student.device.type, enabled=False):
        x = F.normalize(student.float(), dim=-1)  # [N, P, D]
        y = F.normalize(anchor.float(), dim=-1)  # [N, P, D]
        return F.mse_loss(x @ x.transpose(1, 2), y @ y.transpose(1, 2))  # of [N, P, P]


def feature_loss(student: Tokens, anchor: Tokens, masks: Tensor) -> Tensor:
    """One minus the cosine between student and anchor, of the cls tokens plus of the patches that both see.

    cls [N, D], patches [N, P, D], masks [N, P] bool: what the student did not see is no matter of keeping.
    """
    with torch.autocast(student.cls.device.type, enabled=False):
        of_cls = 1 - F.cosine_similarity(student.cls.float(), anchor.cls.float(), dim=-1)  # [N]
        of_patches = 1 - F.cosine_similarity(student.patches.float(), anchor.patches.float(), dim=-1)  # [N, P]
        seen = (~masks).float()  # [N, P]
        return of_cls.mean() + (of_patches * seen).sum() / seen.sum().clamp_min(1)
