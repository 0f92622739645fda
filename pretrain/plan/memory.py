"""How much memory a rank needs, before anything is allocated. docs/explanation/plan-formulas.md derives every line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from panendofm.backbone import VisionTransformer
from pretrain.config import PretrainConfig
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.distillation.objective import DistillObjective, TeacherForm
from pretrain.objective.instance import InstanceObjective
from pretrain.objective.objective import Objective, part_name
from pretrain.objective.prototype_loss import chunk_size
from pretrain.objective.trainable import parse_trainable
from pretrain.parallel.config import ShardingConfig
from pretrain.plan.rows import Rows, rows_of
from pretrain.sharding import is_left_whole, shard_group_size, torch_type_of

# Left free on a GPU: the CUDA context, NCCL's buffers, and gaps between tensors.
CUDA_CONTEXT_GB, FRAGMENTATION = 1.5, 0.08
_FLOAT_BYTES = 4
_CHUNKS_AT_A_TIME = 3  # scores, their exponentials, the targets of the rows


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of one rank. The states are exact, what a step adds is checked against torch's allocator (within 5%)."""

    parameters: int  # the student's shards
    gradients: int
    optimizer: int
    teacher: int  # and the Gram anchor
    images: int  # the crops of a batch
    activations: int  # of the student's backbone, kept for the backward pass
    heads: int  # targets, prototypes and their gradients, a chunk of scores, the layers, and the gathered head itself
    block: int  # what one block takes on the way: the anchor's pass, one that is computed again, its gradients
    accumulated: int  # gradients of the parts before

    @property
    def states(self) -> int:
        return self.parameters + self.gradients + self.optimizer + self.teacher

    @property
    def peak(self) -> int:
        """Heads and blocks take their turns, and so do activations and gradients: when the backward pass begins no
        gradient is there yet, and when the optimizer runs no activation is left.
        """
        always = self.parameters + self.optimizer + self.teacher + self.images
        passing = self.accumulated + self.activations + max(self.heads, self.block)
        return always + max(passing, self.gradients)

    def rows(self) -> list[list[str]]:
        parts = {**vars(self), "peak": self.peak}
        return [[name, f"{size / 1e9:.2f} GB"] for name, size in parts.items()]


def memory_with_context(memory: MemoryEstimate) -> float:
    """Bytes on one GPU, with what must stay free."""
    return memory.peak * (1 + FRAGMENTATION) + CUDA_CONTEXT_GB * 1e9


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
    for network in objective.frozen_networks():
        frozen += _sharded_bytes(network.parameters(), ranks)
    frozen += sum(p.numel() for network in objective.whole_networks() for p in network.parameters()) * _FLOAT_BYTES
    pixels = 2 * augment.global_px**2 + augment.local_crops * augment.local_px**2
    students = [(student, rows_of(student, rows.images)) for student in config.of_students]
    # A module is whole twice for a moment: as it arrives, and as tensors. One rank alone has it as it is.
    gathered = 0 if is_left_whole(world_size, torch_type_of(sharding)) else 2 * _parameter_bytes(sharding)
    return MemoryEstimate(
        parameters=student,
        gradients=trained,
        optimizer=2 * trained,
        teacher=frozen,
        images=rows.images * pixels * 3 * _FLOAT_BYTES,
        activations=sum(_activation_bytes(student, of_student) for student, of_student in students),
        heads=_head_bytes(config, objective, rows, gathered),
        block=max(
            _passing_block_bytes(student, objective, objective.backbone_of(name), of_student, gathered)
            for (student, of_student), name in zip(students, ("", *config.distill.students), strict=True)
        ),
        accumulated=trained if config.batch.accumulation_steps > 1 else 0,
    )


def _sharded_bytes(parameters: Iterable[Tensor], ranks: int) -> int:
    return sum(-(-p.shape[0] // ranks) * (p.numel() // p.shape[0]) for p in parameters) * _FLOAT_BYTES


def _parameter_bytes(sharding: ShardingConfig) -> int:
    return 2 if sharding.param_type == "bfloat16" else _FLOAT_BYTES


def _stream_bytes(config: PretrainConfig) -> int:
    """Of a number in the residual stream, which stays fp32 under autocast; FSDP's bfloat16 casts it too."""
    return _parameter_bytes(config.sharding)


def _product_bytes(config: PretrainConfig) -> int:
    """Of a number that a matrix product makes."""
    return 2 if config.objective.compute_type != "float32" else _parameter_bytes(config.sharding)


def _block_bytes(config: PretrainConfig, tokens: int) -> int:
    """What one block keeps of so many tokens for the backward pass."""
    vit, stream, inner = config.model.vit(), _stream_bytes(config), _product_bytes(config)
    # What the non-linearity starts from; SwiGLU's has two halves. Its result and those of the norms are made again.
    hidden = (1 if vit.ffn == "mlp" else 2) * vit.hidden_width
    # The inputs of both norms; attention's log-sums; q, k, v, attention, proj, fc2.
    norms, sums = 2 * vit.width * stream, vit.heads * _FLOAT_BYTES
    return tokens * (norms + sums + (6 * vit.width + hidden) * inner)


def _activation_bytes(config: PretrainConfig, rows: Rows) -> int:
    """What the student's backbone keeps for the backward pass; blocks below the first that trains keep nothing."""
    vit, stream = config.model.vit(), _stream_bytes(config)
    blocks = vit.depth - parse_trainable(config.model.trainable, vit.depth).first_block(vit.depth)
    ends = 4 * rows.student_tokens * vit.width * stream  # patch embedding, positions, packing, final norm
    if config.execution.checkpoint_blocks:
        return blocks * rows.student_tokens * vit.width * stream + ends
    return blocks * _block_bytes(config, rows.branch_tokens) + ends


def _passing_block_bytes(
    config: PretrainConfig, objective: Objective, backbone: VisionTransformer, rows: Rows, gathered: int
) -> int:
    """The most that a single block takes beside what is kept: the anchor's, or one in the backward pass."""
    vit, inner = config.model.vit(), _product_bytes(config)
    parameters = sum(p.numel() for p in backbone.blocks[0].parameters())
    hidden = (1 if vit.ffn == "mlp" else 2) * vit.hidden_width
    # Forward: the stream, its norm, and what the non-linearity makes of what; for the global crops, all of them.
    anchor = rows.global_tokens * (2 * vit.width * _stream_bytes(config) + 2 * hidden * inner)
    # Backward: gradients of the stream and of the non-linearity's both sides.
    backward = rows.branch_tokens * (2 * vit.width * _stream_bytes(config) + 2 * hidden * inner)
    if config.execution.checkpoint_blocks:
        backward += _block_bytes(config, rows.branch_tokens)
    weights = parameters * (gathered + _parameter_bytes(config.sharding) + _FLOAT_BYTES)
    return weights + _kept_of_heads(config, objective) + max(backward, anchor if objective.config.anchored else 0)


def _head_bytes(config: PretrainConfig, objective: Objective, rows: Rows, gathered: int) -> int:
    if isinstance(objective, InstanceObjective):
        classes = min(objective.images, objective.config.sampled_classes)
        # Scores, their logarithms and their gradients; the classes' rows of the head, where they are a sample.
        sampled = 0 if classes == objective.images else classes * objective.student_backbone.config.width
        return (_CHUNKS_AT_A_TIME * classes * rows.cls_rows + 2 * sampled) * _FLOAT_BYTES
    if isinstance(objective, DistillObjective) and not objective.form.has_heads:
        return _regression_bytes(config, objective.form, rows)
    return _prototype_bytes(config, objective, rows, gathered)


def _regression_bytes(config: PretrainConfig, form: TeacherForm, rows: Rows) -> int:
    """The teacher's tokens; of every student what it predicts and its errors; two copies of one on the way."""
    of_student = 2 * rows.images * form.cls_width + rows.patch_rows * form.patch_width
    students = len(config.distill.students) + 1
    kept = _stream_bytes(config) + _FLOAT_BYTES + students * (_product_bytes(config) + _FLOAT_BYTES)
    return of_student * kept + 2 * rows.patch_rows * form.patch_width * _FLOAT_BYTES


def _kept_of_heads(config: PretrainConfig, objective: Objective) -> int:
    """The prototypes' gradients, made in the forward pass, in the type of the prototypes."""
    heads = _prototype_heads(objective.config) if _has_prototypes(objective) else []
    kept = sum(head.prototypes * head.bottleneck for head in heads) * _parameter_bytes(config.sharding)
    return kept * (len(config.distill.students) + 1)


def _has_prototypes(objective: Objective) -> bool:
    if isinstance(objective, DistillObjective):
        return objective.form.has_heads
    return not isinstance(objective, InstanceObjective)


def _prototype_heads(objective: ObjectiveConfig) -> list[HeadConfig]:
    return [objective.dino_head, *([objective.ibot_head] if objective.separate_ibot_head else [])]


def _prototype_bytes(config: PretrainConfig, objective: Objective, rows: Rows, gathered: int) -> int:
    """One head after the other, while all targets are there. Scores exist a chunk of rows at a time only."""
    wanted, kept_type = objective.config, _parameter_bytes(config.sharding)
    patches = _prototype_heads(wanted)[-1]
    # Targets, swapped targets, and the sum of both crops' targets; targets of the masked patches. fp32.
    targets = wanted.dino_head.prototypes * 5 * rows.images + patches.prototypes * rows.patch_rows
    scores = max(wanted.dino_head.prototypes * rows.cls_rows, patches.prototypes * rows.patch_rows)
    chunk = min(chunk_size(scores), scores)
    most = before = 0
    rows_of_heads = [rows.cls_rows, rows.patch_rows] if wanted.separate_ibot_head else [rows.cls_rows + rows.patch_rows]
    heads = list(zip(("dino_head", "ibot_head"), _prototype_heads(wanted), rows_of_heads, strict=False))
    for student in ("", *config.distill.students):
        for name, head, count in heads:
            size = head.prototypes * head.bottleneck
            before += _layer_outputs(head) * count * _product_bytes(config)
            # The prototypes, their gradient in fp32, and, where that is not the products' type, what is added to it.
            added = _product_bytes(config) if _product_bytes(config) < _FLOAT_BYTES else 0
            here = size * (kept_type + _FLOAT_BYTES + added)
            own = objective.student[part_name(student, name)]
            here += gathered * sum(p.numel() for p in own.parameters())
            most = max(most, before + here)
            before += size * kept_type
    return (targets + _CHUNKS_AT_A_TIME * chunk) * _FLOAT_BYTES + most


def _layer_outputs(head: HeadConfig) -> int:
    """Numbers kept for one row by the layers before the prototypes."""
    return 2 * (head.layers - 1) * head.hidden + 3 * head.bottleneck
