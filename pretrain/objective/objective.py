"""The DINOv2 objective: student, teacher, targets and losses of a batch."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from panendofm.backbone import Execution, Tokens, VisionTransformer, ViTConfig, merge_adapters
from panendofm.records.metrics import TOTAL
from panendofm.runtime.config import check_config
from panendofm.runtime.errors import UserError
from pretrain.data.batch import Batch
from pretrain.objective.anchors import feature_loss, gram_loss
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.ema import update_ema
from pretrain.objective.heads import ProjectionHead
from pretrain.objective.losses import dino_global, dino_local, ibot, koleo_loss
from pretrain.objective.prototype_loss import LossTargets
from pretrain.objective.targets import Centering, SinkhornKnopp
from pretrain.objective.trainable import parse_trainable, restrict
from pretrain.schedules import Ramp

_RECIPE = Ramp()


class Objective(nn.Module):
    """Student, teacher and what makes targets of the teacher's scores.

    The loss of a batch of B images with 2 global and L local crops each, K prototypes, terms = 2 + 2L:

        s_global, s_local = student(masked global crops, local crops)          one packed pass
        t_global          = teacher(global crops), no gradient
        t_cls, t_patch    = targets(teacher heads(cls tokens, patches at the masked places), teacher temperature)

        dino_local  = Σ_l Σ_g mean_b CE(t_cls[g], head(s_local.cls[l])) / terms
        dino_global = mean over (A, B), (B, A) of CE(t_cls[other crop], head(s_global.cls)) · 2 / terms
        ibot        = Σ_masked CE(t_patch, head(s_global.patches)) / (masked patches of the crop) / 2B
        koleo       = 0.1 · Σ_g −mean_b log distance(s_global.cls[g, b], its nearest neighbor in the microgroup)
        total       = dino_local + dino_global + ibot + koleo                  all in fp32

    State-dict keys: `student.backbone.*`, `student.dino_head.*`, `student.ibot_head.*`, the same below `teacher`,
    `dino_targets.center` and `ibot_targets.center` with centering, `anchor_backbone.*` with Gram or feature anchoring.
    """

    def __init__(
        self, vit: ViTConfig, config: ObjectiveConfig, execution: Execution | None = None, trainable: str = "all"
    ) -> None:
        super().__init__()
        check_config(config)
        self.config = config
        self.student = _network(vit, config, execution)
        restrict(self._student_backbone, parse_trainable(trainable, vit.depth))
        # The teacher is never differentiated, so recomputing its blocks would only cost time.
        plain = replace(execution or Execution(), checkpoint_blocks=False)
        self.teacher = _network(replace(vit, drop_path=0.0), config, plain)
        patch_prototypes = (config.ibot_head if config.separate_ibot_head else config.dino_head).prototypes
        # Cls and patch centers are apart even when the head is shared.
        self.dino_targets = _targets(config, config.dino_head.prototypes)
        self.ibot_targets = _targets(config, patch_prototypes)
        # The starting weights, for either kind of anchoring.
        self.anchor_backbone = VisionTransformer(replace(vit, drop_path=0.0), plain) if config.anchored else None
        for frozen in (self.teacher, self.anchor_backbone):
            if frozen is not None:
                frozen.requires_grad_(False)
        self.copy_student()
        self.train()

    @torch.no_grad()
    def copy_student(self) -> None:
        """Teacher = student, and the Gram anchor = the student's backbone: how every training starts."""
        self.teacher.load_state_dict(merge_adapters(self.student.state_dict()))
        if self.anchor_backbone is not None:
            self.anchor_backbone.load_state_dict(merge_adapters(self.student["backbone"].state_dict()))

    @property
    def _student_backbone(self) -> VisionTransformer:
        backbone = self.student["backbone"]
        assert isinstance(backbone, VisionTransformer)
        return backbone

    def train(self, mode: bool = True) -> Objective:
        """Only the student ever trains; the teacher and the anchor stay in eval()."""
        super().train(mode)
        self.teacher.eval()
        if self.anchor_backbone is not None:
            self.anchor_backbone.eval()
        return self

    def forward(
        self,
        batch: Batch,
        teacher_temperature: float,
        ramp: Ramp = _RECIPE,
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
            global_tokens, local_cls = self._student_tokens(batch, drop_path)  # Tokens of 2B crops, [L·B, D]
            total, losses = self._prototype_losses(
                torch.cat([global_tokens.cls, local_cls]),  # [2B + L·B, D]
                _at(global_tokens.patches, batch.masked_positions),  # [M, D]
                parts,
            )
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
        if self.anchor_backbone is not None:
            losses |= self._anchor_losses(tokens, batch, ramp.anchor)
        return losses

    @torch.no_grad()
    def targets(self, batch: Batch, temperature: float) -> tuple[Tensor, Tensor]:
        """Target distributions of the cls tokens [2, B, K] and of the masked patches [M, K']."""
        with self.autocast(batch.masks.device):
            tokens: Tokens = self.teacher["backbone"](batch.global_crops)  # the teacher sees every patch
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

    def update_teacher(
        self, momentum: float, backbone_momentum: float | None = None, unless: Tensor | None = None
    ) -> None:
        """Move the teacher towards the student, unless a flag on the device says not to.

        Its backbone may have a momentum of its own.
        """
        for name, part in self.teacher.items():
            own = backbone_momentum if name == "backbone" and backbone_momentum is not None else momentum
            update_ema(part, self.student[name], own, unless)

    def _student_tokens(self, batch: Batch, drop_path: list[Tensor] | None) -> tuple[Tokens, Tensor]:
        """Tokens of the masked global crops and the local crops' cls tokens [L·B, D], from one packed pass."""
        backbone = self._student_backbone
        crops: list[Tensor] = [batch.global_crops]
        masks: list[Tensor | None] = [batch.masks]
        if len(batch.local_crops):
            crops.append(batch.local_crops)
            masks.append(None)
        if drop_path is None and self.training and backbone.config.drop_path > 0:
            raise ValueError(
                "a student with drop path needs the samples that its branches see (objective/drop_path.py)"
            )
        members = backbone.forward_packed(crops, masks, drop_path)
        local_cls = members[1].cls if len(members) > 1 else members[0].cls[:0]
        return members[0], local_cls

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

    def _anchor_losses(self, tokens: Tokens, batch: Batch, factor: float) -> dict[str, Tensor]:
        """How far the student's view of the global crops is from that of the starting weights."""
        config = self.config
        assert self.anchor_backbone is not None
        with torch.no_grad(), self.autocast(batch.masks.device):
            start: Tokens = self.anchor_backbone(batch.global_crops)  # cls [2B, D], patches [2B, N, D]
        losses = {}
        if config.gram_weight > 0:
            losses["gram"] = config.gram_weight * factor * gram_loss(tokens.patches, start.patches)
        if config.feature_weight > 0:
            losses["features"] = config.feature_weight * factor * feature_loss(tokens, start, batch.masks)
        return losses

    def autocast(self, device: torch.device) -> torch.autocast:
        """In which every forward pass of these networks runs, also those that only measure."""
        compute_type = getattr(torch, self.config.compute_type)
        return torch.autocast(device.type, compute_type, enabled=compute_type != torch.float32)


def _network(vit: ViTConfig, config: ObjectiveConfig, execution: Execution | None) -> nn.ModuleDict:
    parts: dict[str, nn.Module] = {
        "backbone": VisionTransformer(vit, execution),
        "dino_head": ProjectionHead(vit.width, config.dino_head),
    }
    if config.separate_ibot_head:
        parts["ibot_head"] = ProjectionHead(vit.width, config.ibot_head)
    return nn.ModuleDict(parts)


def _targets(config: ObjectiveConfig, prototypes: int) -> nn.Module:
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
