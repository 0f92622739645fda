"""The objective, sharded over the ranks, with the same starting weights whatever their number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, distribute_tensor

from backbone import Execution, ViTConfig
from pretrain.objective.objective import Objective, ObjectiveConfig
from pretrain.objective.starting_weights import start_from
from pretrain.parallel.sharding import shard_objective
from pretrain.randomness import derived_seed
from runtime.config import option
from runtime.errors import UserError


@dataclass
class ShardingConfig:
    """How parameters, gradients and optimiser state lie over the ranks. None of it changes the result."""

    mode: Literal["fsdp", "hsdp", "replicate"] = option(
        "fsdp: sharded over all ranks. hsdp: sharded within a node, replicated over nodes. replicate: a copy each.",
        "fsdp",
    )
    ranks_per_shard_group: int | None = option("hsdp: ranks that share one copy; null: those of a node.", None)
    param_type: Literal["float32", "bfloat16"] = option(
        "Type in which parameters are gathered and used; shards and gradient reduction are float32 always.", "float32"
    )
    reshard_after_forward: bool = option(
        "Free gathered blocks between forward and backward: less memory, more communication.", True
    )


def shard_group_size(config: ShardingConfig, world_size: int, local_size: int) -> int:
    """Over how many ranks one copy of the parameters is sharded."""
    if config.mode == "fsdp":
        return world_size
    if config.mode == "replicate":
        return 1
    group = config.ranks_per_shard_group or local_size
    if world_size % group:
        raise UserError(
            f"sharding.ranks_per_shard_group={group} does not divide the {world_size} ranks; choose a divisor."
        )
    return group


def make_mesh(config: ShardingConfig, world_size: int, local_size: int, device_type: str) -> DeviceMesh:
    group = shard_group_size(config, world_size, local_size)
    if config.mode == "fsdp":
        return init_device_mesh(device_type, (world_size,), mesh_dim_names=("shard",))
    return init_device_mesh(device_type, (world_size // group, group), mesh_dim_names=("replicate", "shard"))


def sharded_on_meta(
    vit: ViTConfig, config: ObjectiveConfig, execution: Execution, sharding: ShardingConfig, mesh: DeviceMesh
) -> Objective:
    """The objective without memory for its tensors, sharded."""
    with torch.device("meta"):
        objective = Objective(vit, config, execution)
    param_type = torch.bfloat16 if sharding.param_type == "bfloat16" else None
    shard_objective(objective, mesh, param_type, sharding.reshard_after_forward)
    return objective


def build_objective(
    vit: ViTConfig,
    config: ObjectiveConfig,
    execution: Execution,
    sharding: ShardingConfig,
    mesh: DeviceMesh,
    device: torch.device,
    seed: int,
    weights: dict[str, Tensor] | None = None,
    new_registers: bool = False,
) -> Objective:
    """A sharded objective on `device`. `weights`: a backbone to start from, under its official names.

    The whole objective is drawn once on the host, from the seed alone, and each rank takes its shards of it: the start
    is the same on any number of ranks, and no device ever holds more than its share.
    """
    objective = sharded_on_meta(vit, config, execution, sharding, mesh)
    objective.to_empty(device=device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "weights"))
        whole = Objective(vit, config)
    if weights is not None:
        start_from(whole, weights, new_registers)
    _fill_with_nan(objective)
    _take_shards(objective, whole.state_dict())
    _refuse_missed_weights(objective)
    return objective


@torch.no_grad()
def _fill_with_nan(objective: nn.Module) -> None:
    for tensor in [*objective.parameters(), *objective.buffers()]:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if local.is_floating_point():
            local.fill_(math.nan)


@torch.no_grad()
def _take_shards(objective: nn.Module, whole: dict[str, Tensor]) -> None:
    for name, tensor in objective.state_dict().items():
        if isinstance(tensor, DTensor):
            # Every rank has the whole tensor, so nothing need be sent.
            part = distribute_tensor(
                whole[name].to(tensor.device), tensor.device_mesh, tensor.placements, src_data_rank=None
            )
            tensor.to_local().copy_(part.to_local())
        else:
            tensor.copy_(whole[name])


def _refuse_missed_weights(objective: nn.Module) -> None:
    for name, tensor in [*objective.named_parameters(), *objective.named_buffers()]:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if local.is_floating_point() and bool(local.isnan().any()):
            raise RuntimeError(f"'{name}' was never given its starting values")


def training_state(objective: Objective, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Every tensor that a run needs to go on, by name: the objective's, and `optimizer.NAME.exp_avg` and so on."""
    state: dict[str, Tensor] = dict(objective.state_dict())
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            for kind, tensor in optimizer.state[parameter].items():
                state[f"optimizer.{name}.{kind}"] = tensor
    return state


@torch.no_grad()
def prepare_optimizer(optimizer: torch.optim.Optimizer) -> None:
    """Give AdamW its state before the first step, so that a checkpoint can be loaded in place, and its fused kernel.

    On sharded parameters the fused kernel also spares most of the dispatching of many small operations.
    """
    for group in optimizer.param_groups:
        group["fused"] = True
        for parameter in group["params"]:
            state: dict[str, Any] = optimizer.state[parameter]
            state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
