"""How much arithmetic one image is."""

from __future__ import annotations

from itertools import pairwise

from panendofm.backbone import ViTConfig
from pretrain.config import PretrainConfig
from pretrain.data.augment import AugmentConfig
from pretrain.objective.config import HeadConfig
from pretrain.objective.distillation.objective import TeacherForm
from pretrain.objective.trainable import parse_trainable
from pretrain.plan.rows import tokens_of_crop

# Where no shards are there to be counted.
ASSUMED_IMAGES = 10_000


def flops_per_image(
    config: PretrainConfig, corpus_images: int = ASSUMED_IMAGES, distill_teacher: TeacherForm | None = None
) -> float:
    """Floating-point operations of one image in one step: matrix products only, a multiply-add counts as two.

    Of all students of a distillation; the teacher's pass, which they share, is counted once.
    """
    of_students = [_of_one_student(student, corpus_images, distill_teacher) for student in config.of_students]
    if distill_teacher is None:
        return sum(of_students)
    return sum(of_students) + _teacher_flops(distill_teacher, config.augment)


def _of_one_student(config: PretrainConfig, corpus_images: int, distill_teacher: TeacherForm | None) -> float:
    """Those of student and teacher, without the frozen teacher of a distillation.

    The student's are counted three times (forward, and twice that backward) where all of it trains, those of the
    teacher, and of the anchor where there is one, once. Drop path spares its share of the student's blocks.
    """
    vit, objective, augment, masks = config.model.vit(), config.trained_objective, config.augment, config.masks
    dino = objective.dino_head
    ibot = objective.ibot_head if objective.separate_ibot_head else dino
    blocks = 2 * block_flops(vit, augment.global_px)  # of both global crops
    local_blocks = augment.local_crops * block_flops(vit, augment.local_px)
    embedding = 2 * _embedding_flops(vit, augment.global_px)
    local_embedding = augment.local_crops * _embedding_flops(vit, augment.local_px)
    masked = 2 * (augment.global_px // vit.patch_px) ** 2 * masks.crop_probability  # patches of masked crops …
    masked *= (masks.ratio_min + masks.ratio_max) / 2  # … that are masked, on average
    patch_head = masked * _head_flops(vit, ibot)

    # Backward, a product costs twice: for its input and for its weight. Frozen blocks below the first that trains need
    # neither, and layers with adapters only the first (the adapters themselves are thin).
    trainable = parse_trainable(config.model.trainable, vit.depth)
    backward = {"all": 2.0, "last": 2.0 * trainable.amount / vit.depth, "lora": 1.0}[trainable.kind]
    embedding_backward = 2.0 if trainable.kind == "all" else 0.0
    student = (1 + backward) * (blocks + local_blocks) * (1 - vit.drop_path)
    student += (1 + embedding_backward) * (embedding + local_embedding)
    anchor = blocks + embedding if objective.anchored else 0.0
    if objective.kind == "instance":  # its teacher follows and computes nothing
        classes = min(corpus_images, objective.sampled_classes)
        return student + 3 * (2 + augment.local_crops) * 2.0 * vit.width * classes + anchor
    if distill_teacher is not None:
        if not distill_teacher.has_heads:  # local crops are left out
            student -= (1 + backward) * local_blocks * (1 - vit.drop_path) + (1 + embedding_backward) * local_embedding
        return student + _distilled_heads_flops(vit, distill_teacher, augment) + anchor
    student += 3 * ((2 + augment.local_crops) * _head_flops(vit, dino) + patch_head)
    teacher = blocks + embedding + 2 * _head_flops(vit, dino) + patch_head
    return student + teacher + anchor


def _teacher_flops(teacher: TeacherForm, augment: AugmentConfig) -> float:
    """The frozen teacher on both global crops, and its heads on their tokens."""
    network = teacher.network
    if not isinstance(network, ViTConfig):
        return 2 * network.flops
    seen = 2 * feature_flops(network, augment.global_px)
    if teacher.dino_head is None:
        return seen
    patches = 2 * (augment.global_px // network.patch_px) ** 2
    return seen + 2 * _head_flops(network, teacher.dino_head) + patches * _head_flops(network, teacher.patch_head)


def _distilled_heads_flops(vit: ViTConfig, teacher: TeacherForm, augment: AugmentConfig) -> float:
    """A student's heads or projections, on cls tokens and all patches; forward, and twice that backward."""
    patches = 2 * (augment.global_px // vit.patch_px) ** 2
    if teacher.dino_head is None:
        return 3 * (2 * teacher.cls_width + patches * teacher.patch_width) * 2.0 * vit.width
    cls_tokens = 2 + augment.local_crops
    return 3 * (cls_tokens * _head_flops(vit, teacher.dino_head) + patches * _head_flops(vit, teacher.patch_head))


def feature_flops(vit: ViTConfig, side_px: int) -> float:
    """One image through the network."""
    return block_flops(vit, side_px) + _embedding_flops(vit, side_px)


def block_flops(vit: ViTConfig, side_px: int) -> float:
    """All blocks on one crop."""
    tokens, width = tokens_of_crop(vit, side_px), vit.width
    matrices = 3 if vit.ffn == "swiglu" else 2
    linear = 4 * width * width + matrices * width * vit.hidden_width
    return float(vit.depth) * (2.0 * tokens * linear + 4.0 * tokens * tokens * width)


def _embedding_flops(vit: ViTConfig, side_px: int) -> float:
    """The patch embedding of one crop."""
    return 2.0 * (side_px // vit.patch_px) ** 2 * 3 * vit.patch_px**2 * vit.width


def _head_flops(vit: ViTConfig, head: HeadConfig) -> float:
    """One token through a head."""
    widths = [vit.width, *[head.hidden] * (head.layers - 1), head.bottleneck, head.prototypes]
    return 2.0 * sum(a * b for a, b in pairwise(widths))
