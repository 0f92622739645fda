"""Drop path: which samples each residual branch of the student sees. Drawn here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from panendofm.backbone import ViTConfig, draw_subsets
from pretrain.randomness import torch_generator


@dataclass(frozen=True)
class DropPath:
    """Draws the samples of a step's branches, as a function of (seed, step, microgroup) and of the rate."""

    vit: ViTConfig
    microgroup_images: int
    local_crops: int
    seed: int

    def draw(self, ramp: float, step: int, microgroups: range) -> list[Tensor] | None:
        """Samples [depth, 2, chosen] of the global crops, and of the local ones, for `ramp` times the model's rate.

        Drawn microgroup by microgroup, so that they do not depend on the number of ranks, and from the same numbers for
        every rate: a lower one adds samples to those that a higher one would choose. None: the model has no drop path.
        """
        if self.vit.drop_path == 0:
            return None
        b, G = self.microgroup_images, len(microgroups)
        vit = replace(self.vit, drop_path=self.vit.drop_path * ramp)
        sizes = [2 * b] + ([self.local_crops * b] if self.local_crops else [])
        members: list[list[Tensor]] = [[] for _ in sizes]
        for g, number in enumerate(microgroups):
            generator = torch_generator(self.seed, "drop path", step, number)
            drawn = draw_subsets(vit, sizes, torch.device("cpu"), generator)
            for member, chosen in zip(members, drawn, strict=True):
                # From a place in the microgroup's crops (crop · b + image) to one in the batch's (crop · B + image).
                member.append(chosen // b * (G * b) + g * b + chosen % b)
        return [torch.cat(member, dim=-1) for member in members]
