"""AdamW with the reference's learning-rate and weight-decay multipliers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pretrain.optimizer.adamw import ShardedAdamW
from pretrain.optimizer.config import OptimizerConfig
from pretrain.schedules import StepValues

_BLOCK = re.compile(r"backbone\.blocks\.(\d+)\.")
_FIRST_LAYER = ("patch_embed", "pos_embed", "cls_token", "mask_token", "register_tokens")


class Multipliers(NamedTuple):
    lr: float
    weight_decay: float
    is_last_layer: bool
    with_heads: bool = True  # trained together with the heads when the rest of the backbone is frozen
    layers_above: int = 0  # blocks between it and the end of the backbone, plus one; 0 for what follows the blocks


def multipliers_of(name: str, blocks: int, config: OptimizerConfig) -> Multipliers:
    """How a student parameter's learning rate and weight decay follow the schedule; `name` as in `student.NAME`."""
    lr, layers_above = 1.0, 0
    if name.startswith("backbone."):
        block = _BLOCK.match(name)
        if block is not None:
            layer = int(block[1]) + 1
        else:
            layer = 0 if name.removeprefix("backbone.").startswith(_FIRST_LAYER) else blocks + 1
        layers_above = blocks + 1 - layer
        lr = config.layerwise_decay**layers_above
        if "patch_embed" in name:
            lr *= config.patch_embed_lr_multiplier
    elif name.startswith("instance_head."):
        lr = config.instance_head_lr_multiplier
    # Tokens, position embedding and weight_g are decayed, as in the reference.
    decayed = not (name.endswith(".bias") or "norm" in name or "gamma" in name)
    # The mask token is part of the heads' task, not of the features: released weights hold an untrained one.
    with_heads = not name.startswith("backbone.") or name == "backbone.mask_token"
    return Multipliers(lr, float(decayed), ".last_layer." in name, with_heads, layers_above)


def parameter_groups(parameters: Iterable[tuple[str, Tensor]], config: OptimizerConfig) -> list[dict[str, Any]]:
    """Optimizer groups of the student's named parameters, one group per set of multipliers."""
    named = list(parameters)
    blocks: dict[str, int] = {}  # of each student
    for name, _ in named:
        student, own = _student_and_own(name)
        block = _BLOCK.match(own)
        blocks[student] = max(blocks.get(student, 0), int(block[1]) + 1 if block is not None else 0)
    groups: dict[Multipliers, dict[str, Any]] = {}
    for name, parameter in named:
        student, own = _student_and_own(name)
        multipliers = multipliers_of(own, blocks[student], config)
        group = groups.setdefault(
            multipliers,
            {
                "params": [],
                "names": [],
                "lr_multiplier": multipliers.lr,
                "wd_multiplier": multipliers.weight_decay,
                "is_last_layer": multipliers.is_last_layer,
                "with_heads": multipliers.with_heads,
                "layers_above": multipliers.layers_above,
            },
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def _student_and_own(name: str) -> tuple[str, str]:
    """The student that a parameter belongs to, and its name there; the first student has no name."""
    student, _, own = name.rpartition("/")
    return student, own


def build_optimizer(student: nn.Module, config: OptimizerConfig) -> ShardedAdamW:
    trained = [(name, parameter) for name, parameter in student.named_parameters() if parameter.requires_grad]
    groups = parameter_groups(trained, config)
    return ShardedAdamW(groups, (config.beta1, config.beta2), config.epsilon)


def set_step_values(optimizer: torch.optim.Optimizer, values: StepValues) -> None:
    """Give every group its learning rate and weight decay for this step."""
    ramp = values.ramp
    for group in optimizer.param_groups:
        lr, weight_decay = values.lr, values.weight_decay
        if group["is_last_layer"]:
            lr = values.last_layer_lr
        elif group["with_heads"]:
            lr = values.lr if values.heads_lr is None else values.heads_lr
        else:
            lr *= ramp.lr * ramp.layer_decay ** group["layers_above"]
            weight_decay *= ramp.weight_decay
        group["lr"] = lr * group["lr_multiplier"]
        group["weight_decay"] = weight_decay * group["wd_multiplier"]
