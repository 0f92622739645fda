"""Shards to checkpoints: DINOv2's training on any number of processes, exact across stops."""

from pretrain.config import PretrainConfig
from pretrain.plan.hardware import GPUS, REFERENCE_EFFICIENCY, gpu_named
from pretrain.plan.page import print_plan
from pretrain.plan.plan import Machine, make_plan
from pretrain.plan.requirements import Requirements, requirements_of
from pretrain.plan.work import feature_flops
from pretrain.train import pretrain

__all__ = [
    "GPUS",
    "REFERENCE_EFFICIENCY",
    "Machine",
    "PretrainConfig",
    "Requirements",
    "feature_flops",
    "gpu_named",
    "make_plan",
    "pretrain",
    "print_plan",
    "requirements_of",
]
