"""Shards to checkpoints: DINOv2's training on any number of processes, exact across stops."""

from pretrain.config import PretrainConfig
from pretrain.plan.hardware import GPUS, gpu_named
from pretrain.plan.page import print_plan
from pretrain.plan.plan import Machine, make_plan
from pretrain.train import pretrain

__all__ = ["GPUS", "Machine", "PretrainConfig", "gpu_named", "make_plan", "pretrain", "print_plan"]
