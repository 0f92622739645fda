"""The DINOv2 objective: targets and losses of a batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from panendofm.backbone import Execution, Tokens, ViTConfig
from panendofm.records.metrics import TOTAL
from panendofm.runtime.errors import UserError
from pretrain.data.batch import Batch
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.heads import ProjectionHead
from pretrain.objective.losses import dino_global, dino_local, ibot, koleo_loss
from pretrain.objective.objective import BACKBONE, RECIPE, Objective
from pretrain.objective.prototype_loss import LossTargets
from pretrain.objective.targets import Centering, SinkhornKnopp
from pretrain.schedules import Ramp


class DinoObjective(Objective):
    """Student and teacher with heads, and what makes targets of the teacher's scores.

    The loss of a batch of B images with 2 global and L local crops each, K prototypes, terms = 2 + 2L:

        s_global, s_local = student(masked global crops, local crops)          one packed pass
        t_global          = teacher(global crops), no gradient
        t_cls, t_patch    = targets(teacher heads(cls tokens, patches at the masked places), teacher temperature)

        dino_local  = Σ_l Σ_g mean_b CE(t_cls[g], head(s_local.cls[l])) / terms
        dino_global = mean over (A, B), (B, A) of CE(t_cls[other crop], head(s_global.cls)) · 2 / terms
        ibot        = Σ_masked CE(t_patch, head(s_global.patches)) / (masked patches of the crop) / 2B
        koleo       = 0.1 · Σ_g −mean_b log distance(s_global.cls[g, b], its nearest neighbor in the microgroup)
        total       = dino_local + dino_global + ibot + koleo                  all in fp32

    State-dict keys beside those of every objective: `student.dino_head.*`, `student.ibot_head.*`, the same below
    `teacher`, `dino_targets.center` and `ibot_targets.center` with centering.
    """

    def __init__(
        self, vit: ViTConfig, config: ObjectiveConfig, execution: Execution | None = None, trainable: str = "all"
    ) -> None:
        super().__init__(vit, config, execution, trainable)
        patch_prototypes = (config.ibot_head if config.separate_ibot_head else config.dino_head).prototypes
        # Cls and patch centers are apart even when the head is shared.
        self.dino_targets = make_targets(config, config.dino_head.prototypes)
        self.ibot_targets = make_targets(config, patch_prototypes)

    def student_heads(self, width: int) -> dict[str, nn.Module]:
        heads: dict[str, nn.Module] = {"dino_head": ProjectionHead(width, self.config.dino_head)}
        if self.config.separate_ibot_head:
            heads["ibot_head"] = ProjectionHead(width, self.config.ibot_head)
        return heads

    def teacher_heads(self, width: int) -> dict[str, nn.Module]:
        return self.student_heads(width)

    def forward(
        self,
        batch: Batch,
        teacher_temperature: float,
        ramp: Ramp = RECIPE,
        drop_path: list[Tensor] | None = None,
    ) -> dict[str, Tensor]:
        """The weighted losses of a batch; `total` is the sum of the others.

        `ramp` scales iBOT's and the anchor's loss. `drop_path`: the samples that each residual branch of the student
        sees, of the global and of the local crops, each [depth, 2, chosen]; a student with drop path needs them.
        """
        config, B, L = self.config, batch.images, batch.local_crops_per_image
        _check_batch(config, batch)
        dino_targets, ibot_targets = self.targets(batch, teacher_temperature)  # [2, B, K], [M, K']
        parts = {
            "dino_global": dino_global(dino_targets, L, config.dino_weight),  # 2B rows
            "dino_local": dino_local(dino_targets, L, config.dino_weight),  # L·B rows
            "ibot": ibot(ibot_targets, batch.masked_weights, 2 * B, config.ibot_weight * ramp.ibot),  # M rows
        }
        with self.autocast(batch.masks.device):
            global_tokens, local_cls = self.student_tokens(
                batch, batch.masks, drop_path
            )  # Tokens of 2B crops, [L·B, D]
            total, losses = self._prototype_losses(
                torch.cat([global_tokens.cls, local_cls]),  # [2B + L·B, D]
                _at(global_tokens.patches, batch.masked_positions),  # [M, D]
                parts,
            )
        del dino_targets, ibot_targets, parts  # more than a gigabyte, which the anchor's pass can use
        further = self.further_losses(global_tokens, batch, ramp)
        return {**losses, **further, TOTAL: torch.stack([total, *further.values()]).sum()}

    def further_losses(self, tokens: Tokens, batch: Batch, ramp: Ramp) -> dict[str, Tensor]:
        """Losses beside those against prototypes, on the student's view of the global crops.

        A new loss needs an entry here and nothing else: it is part of the total, and of every log, curve and check.
        """
        config = self.config
        losses = {}
        if config.koleo_weight > 0:
            losses["koleo"] = config.koleo_weight * self._koleo(tokens.cls, batch.microgroups)
        return losses | self.anchor_losses(tokens, batch, batch.masks, ramp.anchor)

    @torch.no_grad()
    def targets(self, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
        """Target distributions of the cls tokens [2, B, K] and of the masked patches [M, K']."""
        with self.autocast(batch.masks.device):
            tokens: Tokens = self.teacher[BACKBONE](batch.global_crops)  # the teacher sees every patch
            cls_scores, patch_scores = self._teacher_scores(
                tokens.cls, _at(tokens.patches, batch.masked_positions)
            )  # [2B, K], [M, K']
        cls_targets: Tensor = self.dino_targets(cls_scores, temperature)  # jointly over both crops, [2B, K]
        return cls_targets.reshape(2, batch.images, -1), self.ibot_targets(patch_scores, temperature)

    def _koleo(self, cls: Tensor, microgroups: int) -> Tensor:
        """The sum over both crops of the mean over microgroups: cls tokens [2B, D], crop-major."""
        if self.config.koleo_across_ranks:
            return torch.stack([koleo_loss(crop, across_ranks=True) for crop in cls.chunk(2)]).sum()
        return torch.stack([koleo_loss(part) for part in cls.chunk(2 * microgroups)]).sum() / microgroups

    def _teacher_scores(self, cls: Tensor, patches: Tensor) -> tuple[Tensor, Tensor]:
        """Prototype scores of cls tokens [N, D] and patches [M, D]: one call per head."""
        if self.config.separate_ibot_head:
            return self.teacher["dino_head"](cls), self.teacher["ibot_head"](patches)
        both = self.teacher["dino_head"](torch.cat([cls, patches]))  # [N + M, K]
        return both[: len(cls)], both[len(cls) :]

    def _prototype_losses(
        self, cls: Tensor, patches: Tensor, parts: dict[str, LossTargets]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The student's losses against prototypes: their sum, and each by itself without gradient."""
        names, against = list(parts), list(parts.values())
        heads = self.student
        if self.config.separate_ibot_head:
            of_cls, by_cls = heads["dino_head"](cls, against[:-1])
            of_patches, by_patch = heads["ibot_head"](patches, against[-1:])
            total, by_part = of_cls + of_patches, torch.cat([by_cls, by_patch])
        else:
            total, by_part = heads["dino_head"](torch.cat([cls, patches]), against)
        return total, dict(zip(names, by_part.unbind(), strict=True))


def make_targets(config: ObjectiveConfig, prototypes: int) -> nn.Module:
    return SinkhornKnopp() if config.targets == "sinkhorn" else Centering(prototypes)


def _at(patches: Tensor, positions: Tensor) -> Tensor:
    """Patch tokens at flat positions: [2B, N, D], [M] → [M, D]."""
    return patches.flatten(0, 1).index_select(0, positions)


def _check_batch(config: ObjectiveConfig, batch: Batch) -> None:
    if config.koleo_weight > 0 and batch.images < 2 * batch.microgroups and not config.koleo_across_ranks:
        raise UserError(
            "a batch of one image per rank has no neighbors for KoLeo; raise the batch size per rank, "
            "set koleo_across_ranks=true (with several ranks), or set koleo_weight=0."
        )
