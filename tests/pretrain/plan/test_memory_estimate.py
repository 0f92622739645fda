"""Memory before anything is allocated: the estimate against a world of 64 ranks that is only played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.flop_counter import FlopCounterMode

from panendofm.backbone import Execution, VisionTransformer, vit_config
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.build import sharded_on_meta
from pretrain.config import PretrainConfig
from pretrain.data.batch import make_batch
from pretrain.objective.dinov2 import DinoObjective
from pretrain.parallel.config import ShardingConfig
from pretrain.plan.requirements import requirements_of
from pretrain.plan.work import block_flops, flops_per_image
from pretrain.sharding import make_mesh, shard_group_size


def config_of(*words: str) -> PretrainConfig:
    return load_config(PretrainConfig, None, ["run.dir=x", "data.shards=y", *words])


def local_bytes(*modules: nn.Module | None) -> int:
    """Bytes of these modules' shards on this rank."""
    parameters = [p for module in modules if module is not None for p in module.parameters()]
    return sum((p.to_local() if isinstance(p, DTensor) else p).numel() * 4 for p in parameters)


@pytest.fixture
def fake_world() -> Iterator[int]:
    """64 ranks of which this process is the first; the others exist in name only."""
    dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    yield 64
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("mode", "group", "anchor"),
    [("hsdp", 8, []), ("fsdp", 64, ["init.weights=w.pth"]), ("replicate", 1, [])],  # the warm start's anchor counts
)
def test_vit_large_on_64_ranks_has_the_memory_that_was_estimated(
    fake_world: int, mode: str, group: int, anchor: list[str]
) -> None:
    config = config_of(f"sharding.mode={mode}", *anchor)
    vit, sharding = config.model.vit(), config.sharding
    assert shard_group_size(sharding, fake_world, local_size=8) == group
    mesh = make_mesh(sharding, fake_world, local_size=8, device_type="cpu")
    objective = sharded_on_meta(vit, config.trained_objective, Execution(), sharding, mesh)
    student = local_bytes(objective.student)
    estimate = requirements_of(config, fake_world, ranks_per_node=8, images=16).memory
    assert estimate.parameters == student
    assert estimate.teacher == local_bytes(objective.teacher, objective.anchor_backbone)
    assert estimate.states == 4 * student + estimate.teacher
    whole = sum(p.numel() for p in objective.student.parameters()) * 4  # bytes of one copy
    # Tensors are cut along their first dimension, which is 1 for the position embedding: rank 0 has all of it.
    positions = objective.student["backbone"].pos_embed.numel() * 4
    assert whole / group <= student < whole / group * 1.01 + positions
    assert all(p.is_meta for p in objective.parameters())


def test_work_per_image_is_in_the_region_of_the_published_count() -> None:
    """About 1.37 TFLOP per image for L/14 by an analytic count of the reference's step."""
    assert flops_per_image(config_of()) == pytest.approx(1.37e12, rel=0.05)


SMALL = (
    "model.name=vit_small_patch14",
    "model.image_px=56",
    "model.drop_path=0",
    "augment.global_px=56",
    "augment.local_px=28",
    "augment.local_crops=2",
    "objective.dino_head.prototypes=256",
    "objective.ibot_head.prototypes=256",
    "masks.crop_probability=0",
)


@pytest.mark.parametrize("anchor", ["none", "features", "gram"])
def test_the_work_of_a_step_agrees_with_torchs_count(anchor: str) -> None:
    """Every network that a step runs is counted, the warm start's anchor too."""
    config = config_of(*SMALL, "init.weights=w.pth", f"warm_start.anchor={anchor}")
    objective = DinoObjective(config.model.vit(), config.trained_objective)
    masks = torch.zeros(8, 16, dtype=torch.bool)
    batch = make_batch(torch.rand(8, 3, 56, 56), torch.rand(8, 3, 28, 28), masks)  # four images
    with FlopCounterMode(display=False) as counter:
        objective(batch, 0.05)["total"].backward()
    # The anchor is a sixth of it. torch does not count attention on the CPU, we do not count the losses' own products.
    assert counter.get_total_flops() / 4 == pytest.approx(flops_per_image(config), rel=0.02)


def test_block_flops_agree_with_torch() -> None:
    vit = vit_config("vit_small_patch14", image_px=56)
    with torch.device("meta"):
        model = VisionTransformer(vit)
        images = torch.zeros(1, 3, 56, 56)
    with FlopCounterMode(display=False) as counter:
        model(images)
    embedding = 2 * 16 * 3 * 14 * 14 * vit.width
    assert counter.get_total_flops() - embedding == pytest.approx(block_flops(vit, 56), rel=0.02)


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UserError, match="ranks_per_shard_group=6 does not divide the 64 ranks"):
        shard_group_size(ShardingConfig(mode="hsdp", ranks_per_shard_group=6), 64, 8)


def test_checkpointing_and_sharding_lower_the_estimate() -> None:
    heads = [
        f"objective.{head}.{size}"
        for head in ("dino_head", "ibot_head")
        for size in ("prototypes=1024", "bottleneck=64")
    ]
    words = ("model.drop_path=0", *heads)
    plain = requirements_of(config_of(*words), 1, 1, images=16).memory
    recomputed = requirements_of(config_of(*words, "execution.checkpoint_blocks=true"), 1, 1, images=16).memory
    # The stream of every block, one block that is computed again, and both ends.
    assert recomputed.activations < plain.activations / 7
    assert requirements_of(config_of(*words), 8, 8, images=16).memory.states < plain.states / 7.7
