"""Which samples the residual branches of a step see."""

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

    Drawn group by group, so that they do not depend on the number of ranks, and from the same numbers for every rate: a
    lower one adds samples to those that a higher one would choose.
    """
    b, G = group_images, len(groups)
    sizes = [2 * b] + ([local_crops * b] if local_crops else [])
    members: list[list[Tensor]] = [[] for _ in sizes]
    for g, number in enumerate(groups):
        generator = torch_generator(seed, "drop path", step, number)
        drawn = draw_subsets(replace(vit, drop_path=rate), sizes, torch.device("cpu"), generator)
        for member, chosen in zip(members, drawn, strict=True):
            # From a place in the group's crops (crop · b + image) to one in the batch's (crop · B + image).
            member.append(chosen // b * (G * b) + g * b + chosen % b)
    return [torch.cat(member, dim=-1) for member in members]
