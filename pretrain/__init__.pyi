from .config import PretrainConfig
from .parallel.world import World, joined_world, place_of_process
from .plan.hardware import GPUS, REFERENCE_EFFICIENCY, Gpu, gpu_named
from .plan.page import print_plan
from .plan.plan import Machine, make_plan
from .plan.requirements import Requirements, requirements_of
from .plan.work import feature_flops
from .run.retention import most_checkpoints
from .train import pretrain

__all__ = [
    "GPUS",
    "REFERENCE_EFFICIENCY",
    "Gpu",
    "Machine",
    "PretrainConfig",
    "Requirements",
    "World",
    "feature_flops",
    "gpu_named",
    "joined_world",
    "make_plan",
    "most_checkpoints",
    "place_of_process",
    "pretrain",
    "print_plan",
    "requirements_of",
]
