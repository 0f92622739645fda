"""FSDP2: student and teacher sharded alike, over all ranks or within groups of them."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

from panendofm.backbone import VisionTransformer
from panendofm.runtime.errors import UserError
from pretrain.objective.objective import Objective
from pretrain.parallel.config import ShardingConfig

# Every unit costs the host some milliseconds a pass, however small it is. Two blocks of ViT-L are 50 MB in bfloat16.
_BLOCKS_PER_UNIT = 2


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


def torch_type_of(config: ShardingConfig) -> torch.dtype | None:
    """The type in which FSDP gathers parameters; None: that of the shards."""
    return torch.bfloat16 if config.param_type == "bfloat16" else None


def is_left_whole(world_size: int, param_type: torch.dtype | None) -> bool:
    """Whether networks run as they are, without FSDP. It is needed by one rank, too, where it casts parameters."""
    return world_size == 1 and param_type is None


def shard_objective(
    objective: Objective, mesh: DeviceMesh, param_type: torch.dtype | None = None, reshard_after_forward: bool = True
) -> None:
    """Shard the objective's networks in place. Call it before the optimizer is built.

    `param_type` (e.g. bfloat16) is the type in which parameters are gathered and used; the shards themselves, the
    gradient reduction and the losses stay fp32. `reshard_after_forward` false keeps the student's blocks gathered
    between forward and backward: faster, more memory. The teacher always reshards: its average runs on the shards.

    One rank alone has nothing to gather or to reduce: its networks stay as they are and are spared FSDP's copies.
    """
    if is_left_whole(mesh.size(), param_type):
        return
    # The backbone returns slices of one tensor. That matters only to code that changes them in place; there is none.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy(param_dtype=param_type, reduce_dtype=torch.float32)
    _shard_network(objective.student, mesh, policy, reshard_after_forward)
    _shard_network(objective.teacher, mesh, policy, reshard=True)
    for network in objective.frozen_networks():
        _shard_module(network, mesh, policy, reshard_after_forward=True)


def units_of(backbone: VisionTransformer) -> list[list[nn.Module]]:
    """Blocks that are gathered and reduced together."""
    blocks = list(backbone.blocks)
    return [blocks[first : first + _BLOCKS_PER_UNIT] for first in range(0, len(blocks), _BLOCKS_PER_UNIT)]


def _shard_network(network: nn.ModuleDict, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard: bool) -> None:
    for module in network.values():
        _shard_module(module, mesh, policy, reshard)


def _shard_module(
    module: nn.Module, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard_after_forward: bool
) -> None:
    if isinstance(module, VisionTransformer):
        for unit in units_of(module):
            fully_shard(unit, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    if isinstance(module, VisionTransformer):
        # The student enters through this method and not through forward().
        register_fsdp_forward_method(module, "forward_packed")
