"""How much memory a rank needs, before anything is allocated. docs/plan-formulas.md derives every line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from panendofm.backbone import VisionTransformer
from pretrain.config import PretrainConfig
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.instance import InstanceObjective
from pretrain.objective.objective import Objective
from pretrain.objective.prototype_loss import CHUNK
from pretrain.objective.trainable import parse_trainable
from pretrain.parallel.config import ShardingConfig
from pretrain.plan.rows import Rows
from pretrain.sharding import is_left_whole, shard_group_size, torch_type_of

_FLOAT_BYTES = 4
_CHUNKS_AT_A_TIME = 3  # scores, their exponentials, the targets of the rows


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one rank. The states are exact, what a step adds is checked against measured runs (within 15%)."""

    parameters: int  # the student's shards
    gradients: int
    optimizer: int
    teacher: int  # and the Gram anchor
    images: int  # the crops of a batch
    activations: int  # of the student's backbone, kept for the backward pass
    heads: int  # targets, prototypes and their gradients, a chunk of scores, and what the heads' layers keep
    gathered: int  # whole modules for the moment; with accumulation also the gradients of the parts before

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.teacher

    @property
    def peak(self) -> int:
        """Activations and gradients don't meet: when the backward pass begins no gradient is there yet, and when the
        optimizer runs no activation is left.
        """
        always = self.parameters + self.optimizer + self.teacher + self.images
        return always + max(self.gathered + self.activations + self.heads, self.gradients)

    def rows(self) -> list[list[str]]:
        parts = {**vars(self), "peak": self.peak}
        return [[name, f"{size / 1e9:.2f} GB"] for name, size in parts.items()]


def memory_of(
    config: PretrainConfig, objective: Objective, rows: Rows, world_size: int, local_size: int
) -> MemoryEstimate:
    """What rank 0 needs for `rows` at a time. `objective` may be one without memory for its tensors.

    fully_shard cuts every tensor along its first dimension; rank 0 has the largest cut.
    """
    augment, sharding = config.augment, config.sharding
    ranks = shard_group_size(sharding, world_size, local_size)
    student = _sharded_bytes(objective.student.parameters(), ranks)
    trained = _sharded_bytes((p for p in objective.student.parameters() if p.requires_grad), ranks)
    frozen = _sharded_bytes(objective.teacher.parameters(), ranks)
    if objective.anchor_backbone is not None:
        frozen += _sharded_bytes(objective.anchor_backbone.parameters(), ranks)
    pixels = 2 * augment.global_px**2 + augment.local_crops * augment.local_px**2
    # The largest module whole, its gradient, and the next module on its way; of a rank alone the gradient only.
    units = 1 if is_left_whole(world_size, torch_type_of(sharding)) else 3
    gathered = units * max(_module_sizes(objective.student)) * _parameter_bytes(sharding)
    return MemoryEstimate(
        parameters=student,
        gradients=trained,
        optimizer=2 * trained,
        teacher=frozen,
        images=rows.images * pixels * 3 * _FLOAT_BYTES,
        activations=_activation_bytes(config, objective.config, rows),
        heads=_head_bytes(objective, rows),
        gathered=gathered + (trained if config.batch.accumulation_steps > 1 else 0),
    )


def _sharded_bytes(parameters: Iterable[Tensor], ranks: int) -> int:
    return sum(-(-p.shape[0] // ranks) * (p.numel() // p.shape[0]) for p in parameters) * _FLOAT_BYTES


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


def _parameter_bytes(sharding: ShardingConfig) -> int:
    return 2 if sharding.param_type == "bfloat16" else _FLOAT_BYTES


def _activation_bytes(config: PretrainConfig, objective: ObjectiveConfig, rows: Rows) -> int:
    """What the student's backbone keeps for the backward pass; blocks below the first that trains keep nothing."""
    vit, sharding = config.model.vit(), config.sharding
    blocks = vit.depth - parse_trainable(config.model.trainable, vit.depth).first_block(vit.depth)
    # The residual stream, which the norms keep, stays fp32 under autocast; FSDP's bfloat16 casts it too.
    stream = _parameter_bytes(sharding)
    inner = 2 if objective.compute_type != "float32" else stream
    # What the non-linearity starts from; SwiGLU's has two halves. Its result and those of the norms are made again.
    hidden = (1 if vit.ffn == "mlp" else 2) * vit.hidden_width
    # The inputs of both norms; attention's log-sums; q, k, v, attention, proj, fc2.
    norms, sums = 2 * vit.width * stream, vit.heads * _FLOAT_BYTES
    block = rows.branch_tokens * (norms + sums + (6 * vit.width + hidden) * inner)
    # Patch embedding, positions, packing, final norm.
    ends = 4 * rows.student_tokens * vit.width * stream
    if config.execution.checkpoint_blocks:
        return blocks * rows.student_tokens * vit.width * stream + block + ends
    return blocks * block + ends


def _head_bytes(objective: Objective, rows: Rows) -> int:
    """All in fp32."""
    if isinstance(objective, InstanceObjective):
        classes = min(objective.images, objective.config.sampled_classes)
        # Scores, their logarithms and their gradients; the classes' rows of the head, where they are a sample.
        sampled = 0 if classes == objective.images else classes * objective.student_backbone.config.width
        return (_CHUNKS_AT_A_TIME * classes * rows.cls_rows + 2 * sampled) * _FLOAT_BYTES
    return _prototype_bytes(objective.config, rows)


def _prototype_bytes(objective: ObjectiveConfig, rows: Rows) -> int:
    """Scores, their logits and gradients exist a chunk of rows at a time only."""
    dino = objective.dino_head
    ibot = objective.ibot_head if objective.separate_ibot_head else dino
    # Targets, swapped targets, and the sum of both crops' targets; targets of the masked patches.
    targets = dino.prototypes * 5 * rows.images + ibot.prototypes * rows.patch_rows
    chunk = min(CHUNK, max(dino.prototypes * rows.cls_rows, ibot.prototypes * rows.patch_rows))
    layers = _layer_outputs(dino) * rows.cls_rows + _layer_outputs(ibot) * rows.patch_rows
    # The normalized prototypes, copies of the last layers' weights, and their gradients; that of the largest unit
    # counts as gathered.
    copies = [head.prototypes * head.bottleneck for head in {id(head): head for head in (dino, ibot)}.values()]
    prototypes = 2 * sum(copies) - max(copies)
    return (targets + _CHUNKS_AT_A_TIME * chunk + layers + prototypes) * _FLOAT_BYTES


def _layer_outputs(head: HeadConfig) -> int:
    """Numbers kept for one row by the layers before the prototypes."""
    return 2 * (head.layers - 1) * head.hidden + 3 * head.bottleneck
