"""What trains: all, the last blocks, or low-rank adapters. What does not train keeps its bits."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_runs import assert_same_run, metrics_of, run_ranks, words_of

from panendofm.backbone import VisionTransformer, add_adapters, load_backbone, merge_adapters, vit_config
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.objective.trainable import Trainable, parse_trainable
from pretrain.plan.requirements import requirements_of

KINDS = ["last:1", "lora:4"]


def adapted_backbone(rank: int = 4) -> VisionTransformer:
    """With adapters that have trained: both matrices hold numbers."""
    torch.manual_seed(0)
    backbone = VisionTransformer(vit_config("vit_test"))
    add_adapters(backbone.blocks, rank)
    for name, parameter in backbone.named_parameters():
        if "lora_up" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return backbone.eval()


def test_merged_weights_are_the_adapted_network() -> None:
    adapted = adapted_backbone()
    plain = VisionTransformer(vit_config("vit_test")).eval()
    before = adapted.state_dict()["blocks.0.attn.qkv.weight"].clone()
    plain.load_state_dict(merge_adapters(adapted.state_dict()))
    images = torch.randn(3, 3, 56, 56)
    with torch.no_grad():
        ours, theirs = adapted(images), plain(images)
    assert (ours.cls - theirs.cls).abs().max() < 1e-6 * theirs.cls.abs().max() + 1e-6
    torch.testing.assert_close(ours.patches, theirs.patches, atol=1e-6, rtol=1e-5)
    # The adapters did something, and merging left the adapted network alone.
    assert not torch.equal(plain.state_dict()["blocks.0.attn.qkv.weight"], before)
    assert torch.equal(adapted.state_dict()["blocks.0.attn.qkv.weight"], before)


def test_new_adapters_change_nothing() -> None:
    torch.manual_seed(0)
    backbone = VisionTransformer(vit_config("vit_test")).eval()
    images = torch.randn(2, 3, 56, 56)
    with torch.no_grad():
        before = backbone(images).cls
        add_adapters(backbone.blocks, 2)
        assert torch.equal(backbone(images).cls, before)


def test_what_model_trainable_may_be() -> None:
    assert parse_trainable("all", 4) == Trainable()
    assert parse_trainable("last:4", 4) == Trainable("last", 4)
    assert parse_trainable("lora:16", 4) == Trainable("lora", 16)
    for text in ("last:0", "last:", "lora", "first:2", "last:2 "):
        with pytest.raises(UserError, match=r"model\.trainable=.* write last:2"):
            parse_trainable(text, 4)
    with pytest.raises(UserError, match=r"has 4 blocks; choose at most last:4"):
        parse_trainable("last:5", 4)


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, shards: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    run = tmp_path_factory.mktemp("trainable") / "run"
    run_ranks(words_of(run, shards, model__trainable=request.param), 2)
    return request.param, run


def backbones(run: Path, role: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """At the start and at the end."""
    folders = sorted((run / "checkpoints").glob("step_*"))
    first, last = (load_backbone(folder, role=role).model.state_dict() for folder in (folders[0], folders[-1]))
    return first, last


@pytest.mark.parametrize("role", ["student", "teacher"])
def test_only_what_trains_has_changed(trained: tuple[str, Path], role: str) -> None:
    kind, run = trained
    first, last = backbones(run, role)
    depth = max(int(name.split(".")[1]) for name in first if name.startswith("blocks."))
    changed = {name for name in first if not torch.equal(first[name], last[name])}
    if kind == "last:1":
        moving = {name for name in first if name.startswith((f"blocks.{depth}.", "norm."))}
    else:
        layers = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
        moving = {name for name in first if name.endswith(tuple(f"{layer}.weight" for layer in layers))}
    assert changed - {"mask_token"} == moving


def test_a_moved_run_is_the_same(trained: tuple[str, Path], shards: Path, tmp_path: Path) -> None:
    """Stopped and resumed on as many ranks it is bit-identical; on one rank it is nearly the same."""
    kind, whole = trained
    stopped = tmp_path / "stopped"
    run_ranks(words_of(stopped, shards, model__trainable=kind, run__stop_at="5 steps"), 2)
    run_ranks(words_of(stopped, shards, model__trainable=kind), 2)
    assert_same_run(whole, stopped, 12)
    alone = tmp_path / "alone"
    run_ranks(words_of(alone, shards, model__trainable=kind), 1)
    for ours, theirs in zip(metrics_of(alone), metrics_of(whole), strict=True):
        assert ours["total"] == pytest.approx(theirs["total"], rel=1e-5)


def test_the_plan_knows_what_trains() -> None:
    words = ["run.dir=r", "data.shards=s"]
    needs = {
        kind: requirements_of(load_config(PretrainConfig, None, [*words, f"model.trainable={kind}"]), 8, 8)
        for kind in ("all", "last:2", "lora:16")
    }
    memory = {kind: need.memory for kind, need in needs.items()}
    for kind in ("last:2", "lora:16"):
        assert memory[kind].optimizer == 2 * memory[kind].gradients < memory["all"].optimizer
        assert memory[kind].peak < memory["all"].peak
    assert memory["last:2"].activations < memory["all"].activations / 5
    assert memory["lora:16"].activations == memory["all"].activations
