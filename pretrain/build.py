"""The objective, sharded over the ranks, with the same starting weights whatever their number."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

from panendofm.backbone import Execution, ViTConfig, load_backbone
from panendofm.runtime.console import say
from pretrain.config import PretrainConfig
from pretrain.distill_teacher import teacher_form, teacher_state
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.distillation.objective import DistillObjective, TeacherForm, load_teacher
from pretrain.objective.kinds import make_objective
from pretrain.objective.objective import Objective
from pretrain.objective.starting_weights import start_from
from pretrain.parallel.config import ShardingConfig
from pretrain.parallel.local import local
from pretrain.parallel.world import World
from pretrain.randomness import derived_seed
from pretrain.sharding import make_mesh, shard_objective, torch_type_of


def sharded_on_meta(
    vit: ViTConfig,
    config: ObjectiveConfig,
    execution: Execution,
    sharding: ShardingConfig,
    mesh: DeviceMesh,
    trainable: str = "all",
    corpus_images: int = 1,
    distill_teacher: TeacherForm | None = None,
) -> Objective:
    """The objective without memory for its tensors, sharded."""
    with torch.device("meta"):
        objective = make_objective(vit, config, execution, trainable, corpus_images, distill_teacher)
    shard_objective(objective, mesh, torch_type_of(sharding), sharding.reshard_after_forward)
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
    trainable: str = "all",
    corpus_images: int = 1,
    distill_teacher: TeacherForm | None = None,
    teacher_weights: dict[str, Tensor] | None = None,
) -> Objective:
    """A sharded objective on `device`. `weights`: a backbone to start from, under its official names.

    The whole objective is drawn once on the host, from the seed alone, and each rank takes its shards of it: the start
    is the same on any number of ranks, and no device ever holds more than its share.
    """
    objective = sharded_on_meta(vit, config, execution, sharding, mesh, trainable, corpus_images, distill_teacher)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, "weights"))
        whole = make_objective(vit, config, None, trainable, corpus_images, distill_teacher)
    if isinstance(whole, DistillObjective) and teacher_weights is not None:
        load_teacher(whole, teacher_weights)
    if weights is not None:
        start_from(whole, weights, new_registers)
    objective.to_empty(device=device)
    take_weights(objective, whole.state_dict())
    return objective


def take_weights(objective: Objective, whole: dict[str, Tensor]) -> None:
    """Give a sharded objective its shards of the whole one."""
    _fill_with_nan(objective)
    _take_shards(objective, whole)
    _refuse_missed_weights(objective)


def starting_objective(config: PretrainConfig, world: World, is_new: bool, corpus_images: int) -> Objective:
    """The objective of step 0. A run that is resumed has its own weights and needs none to start from."""
    mesh = make_mesh(config.sharding, world.size, world.local_size, world.device.type)
    weights = None
    if config.init.weights is not None and is_new:
        loaded = load_backbone(config.init.weights)
        say(f"starting from {config.init.weights} ({loaded.architecture}, {loaded.source})")
        weights = loaded.model.state_dict()
    form = teacher_form(config)
    return build_objective(
        config.model.vit(),
        config.trained_objective,
        config.execution,
        config.sharding,
        mesh,
        world.device,
        config.run.seed,
        weights,
        config.init.new_registers,
        config.model.trainable,
        corpus_images,
        form,
        teacher_state(config, form) if form is not None and is_new else None,
    )


@torch.no_grad()
def _fill_with_nan(objective: nn.Module) -> None:
    for tensor in [*objective.parameters(), *objective.buffers()]:
        own = local(tensor)
        if own.is_floating_point():
            own.fill_(math.nan)


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
        own = local(tensor)
        if own.is_floating_point() and bool(own.isnan().any()):
            raise RuntimeError(f"'{name}' was never given its starting values")
