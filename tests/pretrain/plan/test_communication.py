"""The plan's communication against the collectives that a rehearsed step enters; its times against arithmetic."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from panendofm.runtime.config import load_config
from pretrain.config import PretrainConfig
from pretrain.plan.choices import choices_of
from pretrain.plan.communication import Traffic, traffic_of
from pretrain.plan.hardware import Network, gpu_named, network_named
from pretrain.plan.requirements import objective_on_meta
from pretrain.rehearsal.fake_run import rehearse_rank

RANKS, LOCAL = 4, 2
TINY = (
    *("run.dir=x", "data.shards=y", "augment.global_px=28", "augment.local_px=14", "augment.local_crops=1"),
    *("model.name=vit_test", "model.image_px=28", "model.depth=2", "batch.images=8", "batch.microgroup_images=2"),
    *(f"objective.{head}.{key}" for head in ("dino_head", "ibot_head") for key in ("prototypes=64", "hidden=32")),
)


def config_of(*words: str) -> PretrainConfig:
    return load_config(PretrainConfig, None, [*TINY, *words])


@pytest.mark.parametrize("mode", ["fsdp", "hsdp"])
def test_bytes_and_numbers_are_those_of_a_rehearsed_step(mode: str) -> None:
    config = config_of(f"sharding.mode={mode}", "sharding.param_type=bfloat16", "objective.feature_weight=1.0")
    done = rehearse_rank(config, 0, RANKS, LOCAL, torch.device("cpu"))
    numbers: Counter[tuple[str, int]] = Counter()
    sizes: Counter[tuple[str, int]] = Counter()
    for collective in done.step_collectives:
        if collective.place.file != "pretrain/optimizer/clipping.py":  # the norms of gradients are a few numbers
            numbers[collective.kind, collective.ranks] += 1
            sizes[collective.kind, collective.ranks] += collective.bytes
    planned = traffic_of(config, objective_on_meta(config), RANKS, LOCAL)
    assert {(t.kind, t.ranks): t.number for t in planned} == numbers
    for traffic in planned:
        assert traffic.bytes == pytest.approx(sizes[traffic.kind, traffic.ranks], rel=0.01), traffic


def test_times_follow_the_slowest_link() -> None:
    network = Network("test", node_gb_per_second=100.0, between_gb_per_second=10.0)
    within = Traffic("all-gather", ranks=8, nodes=1, groups_per_node=1, number=1, bytes=8 * 10**9)
    assert within.seconds(network) == pytest.approx(0.07), "7 of 8 parts at 100 GB/s"
    between = Traffic("reduce-scatter", ranks=32, nodes=4, groups_per_node=1, number=1, bytes=4 * 10**9)
    assert between.seconds(network) == pytest.approx(0.3), "3 of 4 parts pass a node's adapter"
    copies = Traffic("all-reduce", ranks=4, nodes=4, groups_per_node=8, number=1, bytes=10**9)
    assert copies.seconds(network) == pytest.approx(1.2), "eight groups share it, and a sum goes round twice"
    assert Traffic("all-gather", 1, 1, 1, 1, 10**9).seconds(network) == 0


def test_the_mesh_follows_from_memory_and_network() -> None:
    """What fits and is quickest comes first; recomputing is chosen only where nothing else fits."""
    config = load_config(PretrainConfig, None, ["run.dir=x", "data.shards=y", "batch.images=1024"])
    objective = objective_on_meta(config)
    roomy = choices_of(
        config, objective, gpu_named("a100-80"), network_named("ib-200", gpu_named("a100-80")), 4, 8, 1.4e12
    )
    assert roomy[0].fits and not roomy[0].checkpoint_blocks and roomy[0].accumulation_steps == 1
    tight_gpu = gpu_named("v100-32")
    tight = choices_of(config, objective, tight_gpu, network_named("eth-100", tight_gpu), 1, 8, 1.4e12)
    assert tight[0].fits and (tight[0].checkpoint_blocks or tight[0].accumulation_steps > 1)
    assert not next(c for c in tight if not c.checkpoint_blocks and c.accumulation_steps == 1).fits
