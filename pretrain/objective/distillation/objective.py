"""Distillation: a small student learns to see as a large, frozen teacher does.

As in DINOv2: the large teacher does not move, nothing is masked, and a moving average of the student is what is judged
and exported. That average is `teacher`, as in every objective; the large network is `distill_teacher`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from panendofm.backbone import Execution, Tokens, VisionTransformer, ViTConfig
from panendofm.records.metrics import TOTAL
from pretrain.data.batch import Batch
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.dinov2 import make_targets
from pretrain.objective.distillation.foreign_teacher import ForeignForm
from pretrain.objective.heads import ProjectionHead
from pretrain.objective.losses import dino_global, dino_local, ibot
from pretrain.objective.objective import BACKBONE, RECIPE, Objective, part_name
from pretrain.objective.prototype_loss import LossTargets
from pretrain.parallel.collectives import sum_over_ranks
from pretrain.schedules import Ramp

DINO_HEAD = "dino_head"
IBOT_HEAD = "ibot_head"
_CLS_PROJECTION = "cls_projection"
_PATCH_PROJECTION = "patch_projection"


@dataclass(frozen=True)
class TeacherForm:
    """What the frozen network is made of, known before its weights are read.

    Without heads its features are regressed; with them its prototypes are matched. A shared head serves both.
    """

    network: ViTConfig | ForeignForm
    dino_head: HeadConfig | None = None
    ibot_head: HeadConfig | None = None  # None beside a dino_head: that one serves patches, too
    further_students: Mapping[str, ViTConfig] = field(default_factory=dict)  # taught in the same pass, by name

    @property
    def cls_width(self) -> int:
        return self.network.width if isinstance(self.network, ViTConfig) else self.network.cls_width

    @property
    def patch_width(self) -> int:
        return self.network.width if isinstance(self.network, ViTConfig) else self.network.patch_width

    @property
    def has_heads(self) -> bool:
        return self.dino_head is not None

    @property
    def patch_head(self) -> HeadConfig:
        head = self.ibot_head or self.dino_head
        if head is None:
            raise ValueError("this teacher has no heads")
        return head

    def student_config(self, config: ObjectiveConfig) -> ObjectiveConfig:
        """The student's heads have the form of the teacher's: prototypes are compared one by one."""
        if self.dino_head is None:
            return config
        return replace(
            config,
            dino_head=self.dino_head,
            ibot_head=self.ibot_head or self.dino_head,
            separate_ibot_head=self.ibot_head is not None,
        )

    def heads(self, width: int) -> dict[str, nn.Module]:
        """For tokens of this width."""
        forms = {DINO_HEAD: self.dino_head, IBOT_HEAD: self.ibot_head}
        return {name: ProjectionHead(width, form) for name, form in forms.items() if form is not None}


class DistillObjective(Objective):
    """The loss of a batch of B images with 2 global crops of N patches and L local crops each:

        t            = distill_teacher(global crops), no gradient
        s            = student(global crops, local crops)                            nothing masked

    With the teacher's heads, K prototypes, as DINOv2 does it:

        dino_global  = mean over (A, B), (B, A) of CE(targets(t.cls[other crop]), head(s.cls)) · 2 / (2 + 2L)
        dino_local   = Σ_l Σ_g mean_b CE(targets(t.cls[g]), head(s.local[l])) / (2 + 2L)
        ibot         = mean over all patches of CE(targets(t.patches), head(s.patches))

    Without heads, by regression on the teacher's tokens, in units of their variance (1: no better than their mean):

        e              = projection(s.cls) − t.cls                                   same crop
        cls_features   = mean |e − mean(e)|² / variance(t.cls)
        patch_features = the same of the patches

    Further students have losses, networks and moving averages of their own, `NAME/backbone` and so on; the teacher's
    pass and the targets are shared.
    """

    def __init__(
        self,
        vit: ViTConfig,
        config: ObjectiveConfig,
        teacher: TeacherForm,
        execution: Execution | None = None,
        trainable: str = "all",
    ) -> None:
        self.form = teacher
        super().__init__(vit, teacher.student_config(config), execution, trainable)
        self.distill_teacher = nn.ModuleDict()
        if isinstance(teacher.network, ViTConfig):
            plain = replace(execution or Execution(), checkpoint_blocks=False)
            self.distill_teacher[BACKBONE] = VisionTransformer(replace(teacher.network, drop_path=0.0), plain)
            self.distill_teacher.update(teacher.heads(teacher.cls_width))
        self.distill_teacher.requires_grad_(False)
        self.distill_teacher.eval()
        # Last: the first student begins with the same weights, whoever learns beside it.
        for name, own in teacher.further_students.items():
            self._add_student(name, own, execution)
        if teacher.dino_head is not None:
            self.dino_targets = make_targets(self.config, teacher.dino_head.prototypes)
            self.ibot_targets = make_targets(self.config, teacher.patch_head.prototypes)

    def _add_student(self, name: str, vit: ViTConfig, execution: Execution | None) -> None:
        parts = {BACKBONE: VisionTransformer(vit, execution), **self.student_heads(vit.width)}
        self.student.update({part_name(name, part): module for part, module in parts.items()})
        plain = replace(execution or Execution(), checkpoint_blocks=False)
        average = VisionTransformer(replace(vit, drop_path=0.0), plain)
        average.load_state_dict(parts[BACKBONE].state_dict())
        self.teacher[part_name(name, BACKBONE)] = average.requires_grad_(False).eval()

    @property
    def students(self) -> list[str]:
        """By name; the first one has none."""
        return ["", *self.form.further_students]

    def frozen_networks(self) -> list[nn.Module]:
        return [*super().frozen_networks(), *self.distill_teacher.values()]

    def whole_networks(self) -> list[nn.Module]:
        network = self.form.network
        return [] if isinstance(network, ViTConfig) else [network.teacher]

    @property
    def whole_networks_sha256(self) -> str | None:
        network = self.form.network
        return None if isinstance(network, ViTConfig) else network.sha256

    def student_heads(self, width: int) -> dict[str, nn.Module]:
        if self.form.has_heads:
            return self.form.heads(width)
        widths = {_CLS_PROJECTION: self.form.cls_width, _PATCH_PROJECTION: self.form.patch_width}
        return {name: nn.Linear(width, wanted, bias=False) for name, wanted in widths.items()}

    def teacher_heads(self, width: int) -> dict[str, nn.Module]:
        return {}

    def train(self, mode: bool = True) -> DistillObjective:
        super().train(mode)
        if hasattr(self, "distill_teacher"):  # not yet there when the base class asks for the first time
            self.distill_teacher.eval()
        return self

    def forward(
        self,
        batch: Batch,
        teacher_temperature: float,
        ramp: Ramp = RECIPE,
        drop_path: list[Tensor] | None = None,
    ) -> dict[str, Tensor]:
        with torch.no_grad(), self.autocast(batch.masks.device):
            network = self.form.network
            backbone = self.distill_teacher[BACKBONE] if isinstance(network, ViTConfig) else network.teacher
            seen: Tokens = backbone(batch.global_crops)  # cls [2B, T], patches [2B, N, T]
        # Before the student's pass: while targets are made, twice their memory is needed.
        parts = self._prototype_parts(seen, batch, teacher_temperature, ramp) if self.form.has_heads else {}
        wanted = [] if self.form.has_heads else [_Wanted(seen.cls), _Wanted(seen.patches.flatten(0, 1))]
        losses: dict[str, Tensor] = {}
        with self.autocast(batch.masks.device):
            for name in self.students:
                chosen = None if name else drop_path  # the first alone may have drop path
                if self.form.has_heads:
                    own = self._prototype_losses(name, parts, batch, chosen)
                else:
                    own = self._feature_losses(name, wanted, batch, chosen)
                total = own.pop(TOTAL)
                losses |= {part_name(name, loss): value for loss, value in own.items()}
                losses[TOTAL] = losses[TOTAL] + total if TOTAL in losses else total
        return losses

    def _prototype_losses(
        self, student: str, parts: dict[str, LossTargets], batch: Batch, drop_path: list[Tensor] | None
    ) -> dict[str, Tensor]:
        tokens, local_cls = self.student_tokens(batch, None, drop_path, student)  # of 2B crops, [L·B, D]
        cls = torch.cat([tokens.cls, local_cls])  # [2B + L·B, D]
        patches = tokens.patches.flatten(0, 1)  # [2B·N, D]
        dino_head = self.student[part_name(student, DINO_HEAD)]
        if self.form.ibot_head is None:
            total, by_part = dino_head(torch.cat([cls, patches]), list(parts.values()))
        else:
            of_cls, of_patches = list(parts.values())[:-1], list(parts.values())[-1:]
            cls_total, by_cls = dino_head(cls, of_cls)
            patch_total, by_patch = self.student[part_name(student, IBOT_HEAD)](patches, of_patches)
            total = cls_total + patch_total
            by_part = torch.cat([by_cls, by_patch])
        return {**dict(zip(parts, by_part.unbind(), strict=True)), TOTAL: total}

    @torch.no_grad()
    def _prototype_parts(self, seen: Tokens, batch: Batch, temperature: float, ramp: Ramp) -> dict[str, LossTargets]:
        """What the student's cls tokens of global and local crops, and at last its patches, are compared with."""
        config, B, L = self.config, batch.images, batch.local_crops_per_image
        with self.autocast(batch.masks.device):
            patches = seen.patches.flatten(0, 1)  # [2B·N, T]
            patch_head = self.distill_teacher[DINO_HEAD if self.form.ibot_head is None else IBOT_HEAD]
            cls_scores = self.distill_teacher[DINO_HEAD](seen.cls)  # [2B, K]
            patch_scores = patch_head(patches)  # [2B·N, K']
        cls_targets = self.dino_targets(cls_scores, temperature).reshape(2, B, -1)  # [2, B, K]
        patch_targets = self.ibot_targets(patch_scores, temperature)  # [2B·N, K']
        of_patch = patch_targets.new_full((len(patch_targets),), 1 / seen.patches.shape[1])
        return {
            "dino_global": dino_global(cls_targets, L, config.dino_weight),
            "dino_local": dino_local(cls_targets, L, config.dino_weight),
            "ibot": ibot(patch_targets, of_patch, 2 * B, config.ibot_weight * ramp.ibot),
        }

    def _feature_losses(
        self, student: str, wanted: list[_Wanted], batch: Batch, drop_path: list[Tensor] | None
    ) -> dict[str, Tensor]:
        config = self.config
        of_global = replace(batch, local_crops=batch.local_crops[:0])  # the teacher sees no local crop
        tokens, _ = self.student_tokens(of_global, None, _of_global(drop_path), student)
        cls_projection = self.student[part_name(student, _CLS_PROJECTION)]
        patch_projection = self.student[part_name(student, _PATCH_PROJECTION)]
        cls = _regression(cls_projection(tokens.cls), wanted[0])
        patches = _regression(patch_projection(tokens.patches.flatten(0, 1)), wanted[1])
        losses = {"cls_features": config.dino_weight * cls, "patch_features": config.ibot_weight * patches}
        return {**losses, TOTAL: torch.stack(list(losses.values())).sum()}


def _of_global(drop_path: list[Tensor] | None) -> list[Tensor] | None:
    """What the branches see of the global crops, which come first."""
    return None if drop_path is None else drop_path[:1]


class _Wanted:
    """Rows of the teacher's tokens [M, T] with their variance over the rows of all ranks; fp32.

    In two passes, for which fp32 is exact enough: GPUs are slow in fp64.
    """

    def __init__(self, tokens: Tensor) -> None:
        self.rows = tokens.float()
        squares = (self.rows - _mean_over_ranks(self.rows)).square().mean(dim=1, keepdim=True)  # [M, 1]
        self.variance = _mean_over_ranks(squares).clamp_min(1e-12).squeeze()


def _mean_over_ranks(rows: Tensor) -> Tensor:
    """[M, T] of every rank -> [T]."""
    summed = sum_over_ranks(torch.cat([rows.sum(dim=0), rows.new_full((1,), float(len(rows)))]))  # [T + 1]
    return summed[:-1] / summed[-1]


def _regression(predicted: Tensor, wanted: _Wanted) -> Tensor:
    """Mean squared error of rows [M, T] over the variance of what is wanted; fp32.

    The mean error is left out, as the best bias would: a teacher's features may be one large common vector and little
    else, and a bias would take thousands of steps to get there. Its gradient is zero: errors less their mean sum to 0.
    """
    with torch.autocast(predicted.device.type, enabled=False):
        error = predicted.float() - wanted.rows  # [M, T]
        scaled: Tensor = (error - _mean_over_ranks(error.detach())).square().mean() / wanted.variance
        return scaled


def load_teacher(objective: DistillObjective, state: dict[str, Tensor]) -> None:
    """Give the frozen network its weights, all of them: `backbone.*`, and those of its heads."""
    objective.distill_teacher.load_state_dict(state, strict=True)
