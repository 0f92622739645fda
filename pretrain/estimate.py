"""How much memory a rank needs and how much work an image is, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from backbone import VisionTransformer, ViTConfig
from pretrain.augment import AugmentConfig
from pretrain.build import ShardingConfig, shard_group_size
from pretrain.heads import HeadConfig
from pretrain.masking import MaskConfig
from pretrain.objective import Objective, ObjectiveConfig

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one rank. The first four are exact, the gathered part and the activations are what a step adds."""

    parameters: int  # the student's shards
    gradients: int
    optimizer: int
    teacher: int  # and the Gram anchor
    gathered: int  # the two largest modules, whole, of the student: one in use, one on its way
    activations: int  # of the student's blocks, kept for the backward pass
    scores: int  # of the heads, in fp32: the student's with their softmax and gradient, the teacher's targets

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.teacher

    @property
    def total(self) -> int:
        return self.states + self.gathered + self.activations + self.scores

    def rows(self) -> list[list[str]]:
        parts = {**vars(self), "total": self.total}
        return [[name, f"{size / 1e9:.2f} GB"] for name, size in parts.items()]


def estimate_memory(
    vit: ViTConfig,
    objective: ObjectiveConfig,
    sharding: ShardingConfig,
    augment: AugmentConfig,
    masks: MaskConfig,
    images_per_rank: int,
    checkpoint_blocks: bool,
    world_size: int,
    local_size: int,
) -> MemoryEstimate:
    """What rank 0 needs. fully_shard cuts every tensor along its first dimension; rank 0 has the largest cut."""
    with torch.device("meta"):
        whole = Objective(vit, objective)
    ranks = shard_group_size(sharding, world_size, local_size)
    student = _sharded_bytes(whole.student, ranks)
    frozen = _sharded_bytes(whole.teacher, ranks)
    if whole.gram_anchor is not None:
        frozen += _sharded_bytes(whole.gram_anchor, ranks)
    used_bytes = 2 if sharding.param_type == "bfloat16" else _FLOAT_BYTES
    return MemoryEstimate(
        parameters=student,
        gradients=student,
        optimizer=2 * student,
        teacher=frozen,
        gathered=sum(sorted(_module_sizes(whole.student))[-2:]) * used_bytes,
        activations=_activation_bytes(vit, augment, images_per_rank, checkpoint_blocks, used_bytes),
        scores=int(images_per_rank * _score_bytes(vit, objective, augment, masks)),
    )


def measured_states(objective: Objective) -> tuple[int, int]:
    """Bytes of the student's and of the frozen networks' shards on this rank, of a sharded objective."""
    frozen: list[nn.Module] = [objective.teacher]
    if objective.gram_anchor is not None:
        frozen.append(objective.gram_anchor)
    return _local_bytes([objective.student]), _local_bytes(frozen)


def _local_bytes(modules: list[nn.Module]) -> int:
    total = 0
    for module in modules:
        for parameter in module.parameters():
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            total += local.numel() * _FLOAT_BYTES
    return total


def _sharded_bytes(module: nn.Module, ranks: int) -> int:
    return sum(-(-p.shape[0] // ranks) * (p.numel() // p.shape[0]) for p in module.parameters()) * _FLOAT_BYTES


def _module_sizes(student: nn.ModuleDict) -> list[int]:
    """Numbers of parameters that are gathered at a time: each block, what a backbone has beside them, each head."""
    sizes = []
    for module in student.values():
        size = sum(p.numel() for p in module.parameters())
        if isinstance(module, VisionTransformer):
            blocks = [sum(p.numel() for p in block.parameters()) for block in module.blocks]
            sizes += blocks
            size -= sum(blocks)
        sizes.append(size)
    return sizes


def _tokens(vit: ViTConfig, side_px: int) -> int:
    return 1 + vit.registers + (side_px // vit.patch_px) ** 2


def _activation_bytes(
    vit: ViTConfig, augment: AugmentConfig, images: int, checkpoint_blocks: bool, used_bytes: int
) -> int:
    """A block keeps of a token: its input, both norms, q, k, v, the mixed values, two branch outputs, and the MLP's
    hidden layer twice; with checkpointing its input only.
    """
    tokens = images * (2 * _tokens(vit, augment.global_px) + augment.local_crops * _tokens(vit, augment.local_px))
    kept = 1 - vit.drop_path
    per_block = vit.width if checkpoint_blocks else vit.width + kept * (8 * vit.width + 2 * vit.hidden_width)
    return int(tokens * vit.depth * per_block * used_bytes)


def _masked_patches(vit: ViTConfig, augment: AugmentConfig, masks: MaskConfig) -> float:
    """Masked patches of an image's two global crops, on average."""
    patches = 2 * (augment.global_px // vit.patch_px) ** 2
    return patches * masks.crop_probability * (masks.ratio_min + masks.ratio_max) / 2


def _score_bytes(vit: ViTConfig, objective: ObjectiveConfig, augment: AugmentConfig, masks: MaskConfig) -> float:
    """Of one image. The student's rows are there three times, the teacher's once."""
    patch_head = objective.ibot_head if objective.separate_ibot_head else objective.dino_head
    cls_rows = 3 * (2 + augment.local_crops) + 2
    patch_rows = 4 * _masked_patches(vit, augment, masks)
    return (cls_rows * objective.dino_head.prototypes + patch_rows * patch_head.prototypes) * _FLOAT_BYTES


def flops_per_image(vit: ViTConfig, objective: ObjectiveConfig, augment: AugmentConfig, masks: MaskConfig) -> float:
    """Floating-point operations of one image in one step: matrix products only, a multiply-add counts as two.

    The student's are counted three times (forward, and twice that backward), the teacher's once. Drop path spares its
    share of the student's blocks.
    """
    student_blocks = 2 * _block_flops(vit, augment.global_px)
    student_blocks += augment.local_crops * _block_flops(vit, augment.local_px)
    global_patches, local_patches = ((side // vit.patch_px) ** 2 for side in (augment.global_px, augment.local_px))
    embedded = 2 * global_patches + augment.local_crops * local_patches
    masked = _masked_patches(vit, augment, masks)
    dino = objective.dino_head
    ibot = objective.ibot_head if objective.separate_ibot_head else dino

    student = student_blocks * (1 - vit.drop_path) + 2.0 * embedded * 3 * vit.patch_px**2 * vit.width
    student += (2 + augment.local_crops) * _head_flops(vit, dino) + masked * _head_flops(vit, ibot)
    teacher = 2 * _block_flops(vit, augment.global_px) + 2 * _head_flops(vit, dino) + masked * _head_flops(vit, ibot)
    return 3 * student + teacher


def _head_flops(vit: ViTConfig, head: HeadConfig) -> float:
    """One token through a head."""
    widths = [vit.width, *[head.hidden] * (head.layers - 1), head.bottleneck, head.prototypes]
    return 2.0 * sum(a * b for a, b in pairwise(widths))


def _block_flops(vit: ViTConfig, side_px: int) -> float:
    """All blocks on one crop."""
    tokens, width = _tokens(vit, side_px), vit.width
    matrices = 3 if vit.ffn == "swiglu" else 2
    linear = 4 * width * width + matrices * width * vit.hidden_width
    return float(vit.depth) * (2.0 * tokens * linear + 4.0 * tokens * tokens * width)
