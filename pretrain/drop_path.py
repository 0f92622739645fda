"""Drop path at another rate than the model's, for a step in which the rate is still rising."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from backbone import ViTConfig, draw_subsets
from pretrain.randomness import torch_generator


def subsets_of_step(
    vit: ViTConfig, rate: float, group_images: int, local_crops: int, seed: int, step: int, groups: range
) -> list[Tensor]:
    """Samples [depth, 2, chosen] of the global crops, and of the local ones, that each residual branch sees.

    Drawn as the loader draws them, group by group, and from the same numbers: a lower rate adds samples to those that
    the model's rate would choose.
    """
    b, G = group_images, len(groups)
    sizes = [2 * b] + ([local_crops * b] if local_crops else [])
    members: list[list[Tensor]] = [[] for _ in sizes]
    for g, number in enumerate(groups):
        generator = torch_generator(seed, "drop path", step, number)
        drawn = draw_subsets(replace(vit, drop_path=rate), sizes, torch.device("cpu"), generator)
        for member, chosen in zip(members, drawn, strict=True):
            member.append(chosen // b * (G * b) + g * b + chosen % b)  # from a place in the group to one in the batch
    return [torch.cat(member, dim=-1) for member in members]
