"""What ranks send one another in a step, and how long that takes. Derived in docs/explanation/plan-formulas.md."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor, nn

from panendofm.backbone import VisionTransformer
from pretrain.config import PretrainConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.distillation.objective import DistillObjective
from pretrain.objective.objective import Objective
from pretrain.objective.targets import SinkhornKnopp
from pretrain.parallel.config import ShardingConfig
from pretrain.plan.hardware import Network
from pretrain.sharding import is_left_whole, shard_group_size, torch_type_of, units_of

_FLOAT_BYTES = 4
_RESULT_NUMBERS = 8  # the sums of a step, fp64


@dataclass(frozen=True)
class Traffic:
    """Collectives of one kind in a step, as each rank enters them."""

    kind: str
    ranks: int  # of the group
    nodes: int  # over which the group reaches
    groups_per_node: int  # that send at once over the same adapters
    number: int
    bytes: int  # of the whole tensors: gathered, before they are scattered, reduced

    def seconds(self, network: Network) -> float:
        """On rings that keep to a node as long as they can, one after the other."""
        if self.ranks == 1:
            return 0.0
        passes = 2 if self.kind == "all-reduce" else 1
        if self.nodes == 1:
            share = (self.ranks - 1) / self.ranks
            return passes * share * self.bytes / (network.node_gb_per_second * 1e9)
        share = (self.nodes - 1) / self.nodes
        return passes * share * self.bytes * self.groups_per_node / (network.between_gb_per_second * 1e9)


def traffic_of(config: PretrainConfig, objective: Objective, world_size: int, local_size: int) -> list[Traffic]:
    """Of every step; the few bytes of gradient norms are left out."""
    if world_size == 1:
        return []
    sharding, parts = config.sharding, config.batch.accumulation_steps
    ranks = shard_group_size(sharding, world_size, local_size)
    nodes = -(-ranks // local_size)
    found = []
    if not is_left_whole(world_size, torch_type_of(sharding)) and ranks > 1:
        found += [
            Traffic("all-gather", ranks, nodes, 1, *_gathered(objective, sharding, ranks, parts)),
            Traffic("reduce-scatter", ranks, nodes, 1, *_reduced(objective, ranks)),
        ]
    if ranks < world_size:
        number, size = _reduced(objective, ranks)
        copies = world_size // ranks
        reach = -(-world_size // local_size) if ranks <= local_size else copies
        found.append(Traffic("all-reduce", copies, reach, min(ranks, local_size), number, size // ranks))
    found.append(Traffic("all-reduce", world_size, -(-world_size // local_size), 1, *_targets(objective, parts)))
    return found


def _gathered(objective: Objective, sharding: ShardingConfig, ranks: int, parts: int) -> tuple[int, int]:
    """The student's units forward and backward, those of the teacher, of the anchor and of what teaches forward."""
    size = 2 if sharding.param_type == "bfloat16" else _FLOAT_BYTES
    passes = 2 if sharding.reshard_after_forward else 1
    number = total = 0
    networks = [(objective.student, passes)]
    if isinstance(objective, DinoObjective):  # in others the moving average follows and computes nothing
        networks.append((objective.teacher, 1))
    networks += [(nn.ModuleDict({"frozen": network}), 1) for network in objective.frozen_networks()]
    for network, times in networks:
        number += times * len(list(_units(network)))
        total += times * size * _padded(network.parameters(), ranks)
    return parts * number, parts * total


def _reduced(objective: Objective, ranks: int) -> tuple[int, int]:
    """The gradients of what trains, in fp32."""
    trained = [unit for unit in _units(objective.student) if any(p.requires_grad for p in unit)]
    size = _padded((p for unit in trained for p in unit if p.requires_grad), ranks)
    return len(trained), size * _FLOAT_BYTES


def _targets(objective: Objective, parts: int) -> tuple[int, int]:
    """What losses sum over ranks, and the step's own result.

    Over prototypes for Sinkhorn's iterations or the centers; means and variances of features that are regressed.
    """
    number, size = 0, 0
    if isinstance(objective, DistillObjective) and not objective.form.has_heads:
        form, students = objective.form, len(objective.students)
        means = 1 + students  # of what is wanted, and of each student's errors
        number = 2 * (means + 1)
        size = (means * (form.cls_width + form.patch_width + 2) + 4) * _FLOAT_BYTES
    elif isinstance(objective, DinoObjective | DistillObjective):
        config = objective.config
        patches = config.ibot_head if config.separate_ibot_head else config.dino_head
        for module, head in ((objective.dino_targets, config.dino_head), (objective.ibot_targets, patches)):
            rounds = 2 * module.iterations if isinstance(module, SinkhornKnopp) else 1
            number += rounds
            size += rounds * head.prototypes * _FLOAT_BYTES
    return parts * number + 1, parts * size + _RESULT_NUMBERS * 8


def _units(network: nn.Module) -> Iterable[list[nn.Parameter]]:
    """Parameters that travel together: of some blocks, of what a backbone has beside them, of each head."""
    for module in network.children():
        rest = list(module.parameters())
        if isinstance(module, VisionTransformer):
            units = [[p for block in unit for p in block.parameters()] for unit in units_of(module)]
            yield from units
            inside = {id(p) for unit in units for p in unit}
            rest = [p for p in rest if id(p) not in inside]
        yield rest


def _padded(parameters: Iterable[Tensor], ranks: int) -> int:
    """Numbers, with the rows that fully_shard adds until all ranks have equally many."""
    return sum(-(-p.shape[0] // ranks) * ranks * (p.numel() // p.shape[0]) for p in parameters)
