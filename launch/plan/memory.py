"""Memory of one rank, by part. docs/plan-formulas.md derives every line."""

from __future__ import annotations

from dataclasses import dataclass

from backbone import ViTConfig
from launch.plan.model import Parameters, Rows
from pretrain.build import shard_group_size
from pretrain.config import PretrainConfig
from pretrain.heads import HeadConfig

FP32 = 4


@dataclass(frozen=True)
class Memory:
    """Bytes on one rank. Gradients and activations have their peaks one after the other, so only the larger counts."""

    parameters: float
    optimizer: float
    teacher: float
    gradients: float
    gathered: float
    activations: float
    heads: float
    batch: float

    @property
    def always(self) -> float:
        return self.parameters + self.optimizer + self.teacher + self.batch

    @property
    def in_backward(self) -> float:
        """At the start of the backward pass: everything is kept and no gradient is there yet."""
        return self.always + self.gathered + self.activations + self.heads

    @property
    def in_optimizer(self) -> float:
        return self.always + self.gradients

    @property
    def peak(self) -> float:
        return max(self.in_backward, self.in_optimizer)


def memory_of(config: PretrainConfig, parameters: Parameters, rows: Rows, ranks: int, ranks_per_node: int) -> Memory:
    group = shard_group_size(config.sharding, ranks, ranks_per_node)
    student = FP32 * parameters.student / group
    accumulated = student if config.batch.accumulation_steps > 1 else 0.0
    gathered_bytes = 2 if config.sharding.param_type == "bfloat16" else FP32
    return Memory(
        parameters=student,
        optimizer=2 * student,
        teacher=student + FP32 * parameters.anchor / group,
        gradients=student,
        # The largest unit gathered, its gradient, and the next unit on its way.
        gathered=3 * gathered_bytes * parameters.largest_unit + accumulated,
        activations=_backbone_activations(config, rows),
        heads=_head_activations(config, rows),
        batch=_batch(config, rows),
    )


def _backbone_activations(config: PretrainConfig, rows: Rows) -> float:
    """What the student's backbone keeps for the backward pass."""
    vit = config.model.vit()
    half = config.objective.compute_type != "float32" or config.sharding.param_type == "bfloat16"
    small = 2 if half else FP32
    # The residual stream, which the norms keep, stays fp32 under autocast; FSDP's bfloat16 casts it too.
    stream = 2 if config.sharding.param_type == "bfloat16" else FP32
    norms = 2 * vit.width * stream
    # norm1, q, k, v, attention, its packed copy, proj; norm2, hidden layer, fc2
    inner = (8 * vit.width + 1 * vit.width + _hidden(vit)) * small
    block = rows.branch_tokens * (norms + inner)
    # Patch embedding, positions, packing, final norm and its output.
    ends = 4 * rows.student_tokens * vit.width * stream
    if config.execution.checkpoint_blocks:
        return vit.depth * rows.student_tokens * vit.width * stream + block + ends
    return vit.depth * block + ends


def _hidden(vit: ViTConfig) -> int:
    """Kept by the feed-forward layer for one token: before and after the non-linearity."""
    return 2 * vit.hidden_width if vit.ffn == "mlp" else 4 * vit.hidden_width


def _head_activations(config: PretrainConfig, rows: Rows) -> float:
    """Scores, logits and targets, all fp32, and what the heads' layers keep."""
    objective, images = config.objective, rows.images
    dino = objective.dino_head
    ibot = objective.ibot_head if objective.separate_ibot_head else dino
    # cls: scores and logits of all rows; targets, swapped targets, and the sum of both crops' targets.
    cls = dino.prototypes * (2 * rows.cls_rows + 5 * images)
    # Masked patches: scores, logits, targets, and the product of the last two.
    patch = 4 * ibot.prototypes * rows.patch_rows
    layers = _layers(dino, rows.cls_rows) + _layers(ibot, rows.patch_rows)
    # The normalised prototypes, a copy of the last layer's weights.
    prototypes = dino.prototypes * dino.bottleneck
    if objective.separate_ibot_head:
        prototypes += ibot.prototypes * ibot.bottleneck
    return float(FP32 * (cls + patch + layers + prototypes))


def _layers(head: HeadConfig, rows: int) -> int:
    return rows * (2 * (head.layers - 1) * head.hidden + 3 * head.bottleneck)


def _batch(config: PretrainConfig, rows: Rows) -> float:
    augment = config.augment
    pixels = 2 * augment.global_px**2 + augment.local_crops * augment.local_px**2
    return float(FP32 * 3 * rows.images * pixels)


def checkpoint_bytes(parameters: Parameters) -> int:
    """Student, teacher (and anchor), and AdamW's two averages, all fp32."""
    return FP32 * (4 * parameters.student + parameters.anchor)
