"""How much memory a rank needs and how much work an image is, before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from backbone import VisionTransformer, ViTConfig, subset_size
from pretrain.data.augment import AugmentConfig
from pretrain.data.masking import MaskConfig
from pretrain.objective.heads import HeadConfig
from pretrain.objective.objective import Objective, ObjectiveConfig
from pretrain.parallel.build import ShardingConfig, shard_group_size

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one rank. The states are exact, what a step adds is checked against measured runs (within 15%)."""

    parameters: int  # the student's shards
    gradients: int
    optimizer: int
    teacher: int  # and the Gram anchor
    images: int  # the crops of a batch
    activations: int  # of the student's backbone, kept for the backward pass
    heads: int  # scores, logits and targets, and what the heads' layers keep
    gathered: int  # whole modules for the moment; with accumulation also the gradients of the parts before

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.teacher

    @property
    def peak(self) -> int:
        """Activations and gradients don't meet: when the backward pass begins no gradient is there yet, and when the
        optimiser runs no activation is left.
        """
        always = self.parameters + self.optimizer + self.teacher + self.images
        return always + max(self.gathered + self.activations + self.heads, self.gradients)

    def rows(self) -> list[list[str]]:
        parts = {**vars(self), "peak": self.peak}
        return [[name, f"{size / 1e9:.2f} GB"] for name, size in parts.items()]


@dataclass(frozen=True)
class Rows:
    """What one rank computes at a time: tokens of the backbone and rows of the heads."""

    images: int
    student_tokens: int  # of all crops
    branch_tokens: int  # of the crops that a residual branch sees under drop path
    cls_rows: int
    patch_rows: int  # masked patches, on average


def rows_of(vit: ViTConfig, augment: AugmentConfig, masks: MaskConfig, images: int) -> Rows:
    crops = 2 * images, augment.local_crops * images
    tokens = _tokens(vit, augment.global_px), _tokens(vit, augment.local_px)
    chosen = [subset_size(count, vit.drop_path) if count else 0 for count in crops]
    masked_crops = int(crops[0] * masks.crop_probability)
    patches = (augment.global_px // vit.patch_px) ** 2
    return Rows(
        images=images,
        student_tokens=sum(count * size for count, size in zip(crops, tokens, strict=True)),
        branch_tokens=sum(count * size for count, size in zip(chosen, tokens, strict=True)),
        cls_rows=sum(crops),
        patch_rows=round(masked_crops * patches * (masks.ratio_min + masks.ratio_max) / 2),
    )


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
    accumulates: bool = False,
) -> MemoryEstimate:
    """What rank 0 needs; docs/plan-formulas.md derives every line.

    fully_shard cuts every tensor along its first dimension; rank 0 has the largest cut.
    """
    with torch.device("meta"):
        whole = Objective(vit, objective)
    ranks = shard_group_size(sharding, world_size, local_size)
    student = _sharded_bytes(whole.student, ranks)
    frozen = _sharded_bytes(whole.teacher, ranks)
    if whole.gram_anchor is not None:
        frozen += _sharded_bytes(whole.gram_anchor, ranks)
    rows = rows_of(vit, augment, masks, images_per_rank)
    pixels = 2 * augment.global_px**2 + augment.local_crops * augment.local_px**2
    # The largest module whole, its gradient, and the next module on its way.
    gathered = 3 * max(_module_sizes(whole.student)) * _parameter_bytes(sharding)
    return MemoryEstimate(
        parameters=student,
        gradients=student,
        optimizer=2 * student,
        teacher=frozen,
        images=images_per_rank * pixels * 3 * _FLOAT_BYTES,
        activations=_activation_bytes(vit, objective, sharding, rows, checkpoint_blocks),
        heads=_head_bytes(objective, rows),
        gathered=gathered + (student if accumulates else 0),
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


def _parameter_bytes(sharding: ShardingConfig) -> int:
    return 2 if sharding.param_type == "bfloat16" else _FLOAT_BYTES


def _activation_bytes(
    vit: ViTConfig, objective: ObjectiveConfig, sharding: ShardingConfig, rows: Rows, checkpoint_blocks: bool
) -> int:
    """What the student's backbone keeps for the backward pass."""
    # The residual stream, which the norms keep, stays fp32 under autocast; FSDP's bfloat16 casts it too.
    stream = _parameter_bytes(sharding)
    inner = 2 if objective.compute_type != "float32" else stream
    # Before and after the non-linearity; SwiGLU has two halves of each.
    hidden = (2 if vit.ffn == "mlp" else 4) * vit.hidden_width
    # The inputs of both norms; norm1, q, k, v, attention, its packed copy, proj, norm2, fc2.
    block = rows.branch_tokens * (2 * vit.width * stream + (9 * vit.width + hidden) * inner)
    # Patch embedding, positions, packing, final norm.
    ends = 4 * rows.student_tokens * vit.width * stream
    if checkpoint_blocks:
        return vit.depth * rows.student_tokens * vit.width * stream + block + ends
    return vit.depth * block + ends


def _head_bytes(objective: ObjectiveConfig, rows: Rows) -> int:
    """All in fp32."""
    dino = objective.dino_head
    ibot = objective.ibot_head if objective.separate_ibot_head else dino
    # Scores and logits of all cls rows; targets, swapped targets, and the sum of both crops' targets.
    cls = dino.prototypes * (2 * rows.cls_rows + 5 * rows.images)
    # Scores, logits and targets of the masked patches, and the product of the last two.
    patch = ibot.prototypes * 4 * rows.patch_rows
    layers = _layer_outputs(dino) * rows.cls_rows + _layer_outputs(ibot) * rows.patch_rows
    # The normalised prototypes, a copy of the last layer's weights.
    heads = {id(head): head for head in (dino, ibot)}.values()
    prototypes = sum(head.prototypes * head.bottleneck for head in heads)
    return (cls + patch + layers + prototypes) * _FLOAT_BYTES


def _layer_outputs(head: HeadConfig) -> int:
    """Numbers kept for one row by the layers before the prototypes."""
    return 2 * (head.layers - 1) * head.hidden + 3 * head.bottleneck


def _masked_patches(vit: ViTConfig, augment: AugmentConfig, masks: MaskConfig) -> float:
    """Masked patches of an image's two global crops, on average."""
    patches = 2 * (augment.global_px // vit.patch_px) ** 2
    return patches * masks.crop_probability * (masks.ratio_min + masks.ratio_max) / 2


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
