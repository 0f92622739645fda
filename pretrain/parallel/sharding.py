"""FSDP2: student and teacher sharded alike over all ranks."""

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method

from backbone import VisionTransformer
from pretrain.objective.objective import Objective


def shard_objective(
    objective: Objective, mesh: DeviceMesh, param_type: torch.dtype | None = None, reshard_after_forward: bool = True
) -> None:
    """Shard the objective's networks in place. Call it before the optimiser is built.

    `param_type` (e.g. bfloat16) is the type in which parameters are gathered and used; the shards themselves, the
    gradient reduction and the losses stay fp32. `reshard_after_forward` false keeps the student's blocks gathered
    between forward and backward: faster, more memory. The teacher always reshards: its average runs on the shards.
    """
    # The backbone returns slices of one tensor. That matters only to code that changes them in place; there is none.
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
    policy = MixedPrecisionPolicy(param_dtype=param_type, reduce_dtype=torch.float32)
    _shard_network(objective.student, mesh, policy, reshard_after_forward)
    _shard_network(objective.teacher, mesh, policy, reshard=True)
    if objective.gram_anchor is not None:
        _shard_module(objective.gram_anchor, mesh, policy, reshard_after_forward=True)


def _shard_network(network: nn.ModuleDict, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard: bool) -> None:
    for module in network.values():
        _shard_module(module, mesh, policy, reshard)


def _shard_module(
    module: nn.Module, mesh: DeviceMesh, policy: MixedPrecisionPolicy, reshard_after_forward: bool
) -> None:
    if isinstance(module, VisionTransformer):
        for block in module.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    fully_shard(module, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    if isinstance(module, VisionTransformer):
        # The student enters through this method and not through forward().
        register_fsdp_forward_method(module, "forward_packed")
