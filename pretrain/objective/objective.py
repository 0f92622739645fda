"""What every objective has: a student that trains, a teacher that follows it and is judged, the start as an anchor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from panendofm.backbone import Execution, Tokens, VisionTransformer, ViTConfig, merge_adapters
from panendofm.runtime.config import check_config
from pretrain.data.batch import Batch
from pretrain.objective.anchors import feature_loss, gram_loss
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.ema import update_ema
from pretrain.objective.trainable import parse_trainable, restrict
from pretrain.schedules import Ramp

BACKBONE = "backbone"
RECIPE = Ramp()


def part_name(student: str, part: str) -> str:
    """What the networks and losses of a student are called; the first one has no name of its own."""
    return f"{student}/{part}" if student else part


def own_part(name: str) -> str:
    """The same without the student's name."""
    return name.rpartition("/")[2]


class Objective(nn.Module):
    """Student and teacher networks; a subclass gives them heads, and computes the losses of a batch in `forward`.

    State-dict keys: `student.backbone.*` and `student.HEAD.*`, the same below `teacher`, and `anchor_backbone.*` with
    Gram or feature anchoring. The teacher may lack heads.
    """

    def __init__(
        self, vit: ViTConfig, config: ObjectiveConfig, execution: Execution | None = None, trainable: str = "all"
    ) -> None:
        super().__init__()
        check_config(config)
        self.config = config
        self.student = nn.ModuleDict({BACKBONE: VisionTransformer(vit, execution), **self.student_heads(vit.width)})
        restrict(self.student_backbone, parse_trainable(trainable, vit.depth))
        # The teacher is never differentiated, so recomputing its blocks would only cost time.
        plain = replace(execution or Execution(), checkpoint_blocks=False)
        still = replace(vit, drop_path=0.0)
        self.teacher = nn.ModuleDict({BACKBONE: VisionTransformer(still, plain), **self.teacher_heads(vit.width)})
        # The starting weights, for either kind of anchoring.
        self.anchor_backbone = VisionTransformer(still, plain) if config.anchored else None
        for frozen in (self.teacher, self.anchor_backbone):
            if frozen is not None:
                frozen.requires_grad_(False)
        self.copy_student()
        self.train()

    def student_heads(self, width: int) -> Mapping[str, nn.Module]:
        raise NotImplementedError

    def teacher_heads(self, width: int) -> Mapping[str, nn.Module]:
        raise NotImplementedError

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
        raise NotImplementedError

    def frozen_networks(self) -> list[nn.Module]:
        """What stays as it was at the start, beside student and teacher: computed with, never trained."""
        return [] if self.anchor_backbone is None else [self.anchor_backbone]

    def whole_networks(self) -> list[nn.Module]:
        """Frozen networks that are no part of the state: each rank has them whole."""
        return []

    @property
    def whole_networks_sha256(self) -> str | None:
        """Of their weights, which a resumed run must find again."""
        return None

    @property
    def student_backbone(self) -> VisionTransformer:
        return self.backbone_of("")

    def backbone_of(self, student: str) -> VisionTransformer:
        """Of the student with this name; the first one has none."""
        backbone = self.student[part_name(student, BACKBONE)]
        assert isinstance(backbone, VisionTransformer)
        return backbone

    @torch.no_grad()
    def copy_student(self) -> None:
        """Teacher = student, and the anchor = the student's backbone: how every training starts."""
        for name, part in self.teacher.items():
            part.load_state_dict(merge_adapters(self.student[name].state_dict()))
        if self.anchor_backbone is not None:
            self.anchor_backbone.load_state_dict(merge_adapters(self.student_backbone.state_dict()))

    def train(self, mode: bool = True) -> Objective:
        """Only the student ever trains; the teacher and the anchor stay in eval()."""
        super().train(mode)
        self.teacher.eval()
        if self.anchor_backbone is not None:
            self.anchor_backbone.eval()
        return self

    def update_teacher(
        self, momentum: float, backbone_momentum: float | None = None, unless: Tensor | None = None
    ) -> None:
        """Move the teacher towards the student, unless a flag on the device says not to.

        Its backbone may have a momentum of its own.
        """
        for name, part in self.teacher.items():
            own = backbone_momentum if own_part(name) == BACKBONE and backbone_momentum is not None else momentum
            update_ema(part, self.student[name], own, unless)

    def student_tokens(
        self, batch: Batch, masks: Tensor | None, drop_path: list[Tensor] | None, student: str = ""
    ) -> tuple[Tokens, Tensor]:
        """Tokens of the global crops, masked or not, and the local crops' cls tokens [L·B, D], from one packed pass."""
        backbone = self.backbone_of(student)
        crops: list[Tensor] = [batch.global_crops]
        masks_of_crops: list[Tensor | None] = [masks]
        if len(batch.local_crops):
            crops.append(batch.local_crops)
            masks_of_crops.append(None)
        if drop_path is None and self.training and backbone.config.drop_path > 0:
            raise ValueError(
                "a student with drop path needs the samples that its branches see (objective/drop_path.py)"
            )
        members = backbone.forward_packed(crops, masks_of_crops, drop_path)
        local_cls = members[1].cls if len(members) > 1 else members[0].cls[:0]
        return members[0], local_cls

    def anchor_losses(self, tokens: Tokens, batch: Batch, masks: Tensor, factor: float) -> dict[str, Tensor]:
        """How far the student's view of the global crops is from that of the starting weights; without an anchor {}."""
        config = self.config
        if self.anchor_backbone is None:
            return {}
        with torch.no_grad(), self.autocast(masks.device):
            start: Tokens = self.anchor_backbone(batch.global_crops)  # cls [2B, D], patches [2B, N, D]
        losses = {}
        if config.gram_weight > 0:
            losses["gram"] = config.gram_weight * factor * gram_loss(tokens.patches, start.patches)
        if config.feature_weight > 0:
            losses["features"] = config.feature_weight * factor * feature_loss(tokens, start, masks)
        return losses

    def autocast(self, device: torch.device) -> torch.autocast:
        """In which every forward pass of these networks runs, also those that only measure."""
        compute_type = getattr(torch, self.config.compute_type)
        return torch.autocast(device.type, compute_type, enabled=compute_type != torch.float32)
