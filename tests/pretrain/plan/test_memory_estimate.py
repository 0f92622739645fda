"""Memory before anything is allocated: the estimate against a world of 64 ranks that is only played."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from backbone import Execution, vit_config
from pretrain.data.augment import AugmentConfig
from pretrain.data.masking import MaskConfig
from pretrain.objective.heads import HeadConfig
from pretrain.objective.objective import ObjectiveConfig
from pretrain.parallel.build import ShardingConfig, make_mesh, shard_group_size, sharded_on_meta
from pretrain.plan.memory import estimate_memory, flops_per_image, measured_states
from runtime.errors import UserError


@pytest.fixture
def fake_world() -> Iterator[int]:
    """64 ranks of which this process is the first; the others exist in name only."""
    dist.init_process_group("fake", rank=0, world_size=64, store=FakeStore())
    yield 64
    dist.destroy_process_group()


@pytest.mark.parametrize(("mode", "group"), [("hsdp", 8), ("fsdp", 64), ("replicate", 1)])
def test_vit_large_on_64_ranks_has_the_memory_that_was_estimated(fake_world: int, mode: str, group: int) -> None:
    vit, config = vit_config("vit_large_patch14", drop_path=0.4), ObjectiveConfig()
    sharding = ShardingConfig(mode=mode)  # type: ignore[arg-type]
    assert shard_group_size(sharding, fake_world, local_size=8) == group
    mesh = make_mesh(sharding, fake_world, local_size=8, device_type="cpu")
    objective = sharded_on_meta(vit, config, Execution(), sharding, mesh)
    student, frozen = measured_states(objective)
    estimate = estimate_memory(
        vit, config, sharding, AugmentConfig(), MaskConfig(), 16, False, fake_world, local_size=8
    )
    assert (estimate.parameters, estimate.teacher) == (student, frozen)
    assert estimate.states == 4 * student + frozen
    whole = sum(p.numel() for p in objective.student.parameters()) * 4  # bytes of one copy
    # Tensors are cut along their first dimension, which is 1 for the position embedding: rank 0 has all of it.
    positions = objective.student["backbone"].pos_embed.numel() * 4
    assert whole / group <= student < whole / group * 1.01 + positions
    assert all(p.is_meta for p in objective.parameters())


def test_work_per_image_is_in_the_region_of_the_published_count() -> None:
    """About 1.37 TFLOP per image for L/14 by an analytic count of the reference's step."""
    vit = vit_config("vit_large_patch14", drop_path=0.4)
    assert flops_per_image(vit, ObjectiveConfig(), AugmentConfig(), MaskConfig()) == pytest.approx(1.37e12, rel=0.05)


def test_block_flops_agree_with_torch() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    from backbone import VisionTransformer
    from pretrain.plan.memory import _block_flops

    vit = vit_config("vit_small_patch14", image_px=56)
    with torch.device("meta"):
        model = VisionTransformer(vit)
        images = torch.zeros(1, 3, 56, 56)
    with FlopCounterMode(display=False) as counter:
        model(images)
    embedding = 2 * 16 * 3 * 14 * 14 * vit.width
    assert counter.get_total_flops() - embedding == pytest.approx(_block_flops(vit, 56), rel=0.02)


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(UserError, match="ranks_per_shard_group=6 does not divide the 64 ranks"):
        shard_group_size(ShardingConfig(mode="hsdp", ranks_per_shard_group=6), 64, 8)


def test_checkpointing_and_sharding_lower_the_estimate() -> None:
    vit = vit_config("vit_large_patch14")
    small = ObjectiveConfig(dino_head=HeadConfig(1024, 64), ibot_head=HeadConfig(1024, 64))
    plain = estimate_memory(vit, small, ShardingConfig(), AugmentConfig(), MaskConfig(), 16, False, 1, 1)
    assert estimate_memory(vit, small, ShardingConfig(), AugmentConfig(), MaskConfig(), 16, True, 1, 1).activations < (
        plain.activations / 9  # the stream of every block, one block that is computed again, and both ends
    )
    assert (
        estimate_memory(vit, small, ShardingConfig(), AugmentConfig(), MaskConfig(), 16, False, 8, 8).states
        < plain.states / 7.7
    )
