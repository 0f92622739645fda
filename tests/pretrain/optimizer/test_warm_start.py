"""The start from a backbone without heads: what it lets move when, and that a resumed run decides alike."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_runs import assert_same_run, metrics_of, run_ranks, tensors_of, words_of

from panendofm.backbone import Tokens, vit_config
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.objective.anchors import feature_loss
from pretrain.objective.drop_path import DropPath
from pretrain.optimizer.config import WarmStartConfig
from pretrain.optimizer.warm_start import HeadsPhase, WarmSchedule
from pretrain.schedules import Ramp, ScheduleConfig, resolve_schedule

RECIPE = resolve_schedule(
    ScheduleConfig(
        total="100 steps", warmup="20 steps", teacher_temperature_warmup="10 steps", freeze_last_layer="2 steps"
    ),
    1024,
)


def schedule(**changes: object) -> WarmSchedule:
    settings = {"heads": "10 steps", "ramp": "20 steps", **changes}
    return WarmSchedule(WarmStartConfig(**settings), RECIPE, 1024, None)  # type: ignore[arg-type]


def test_nothing_of_the_backbone_moves_while_the_heads_train() -> None:
    warm = schedule()
    for step in range(10):
        values = warm.at(step)
        assert (values.ramp.lr, values.ramp.weight_decay, values.ramp.teacher, values.ramp.drop_path) == (0, 0, 0, 0)
        assert values.backbone_momentum == 1.0
        assert values.momentum < 1  # the heads' teacher follows
        assert values.ramp.ibot == 1.0  # the patches' head and the mask token learn too
    assert warm.at(9).heads_lr == RECIPE.lr[1]
    assert warm.at(1).last_layer_lr == 0.0 < warm.at(2).last_layer_lr


def test_the_recipe_is_let_in_and_then_is_the_recipe() -> None:
    warm = schedule(anchor_fade="40 steps", ramp_layer_decay=0.5)
    shares = [warm.at(step).ramp.lr for step in range(10, 30)]
    assert shares == pytest.approx([(i + 1) / 20 for i in range(20)])
    half = warm.at(19)
    assert half.ramp.layer_decay == pytest.approx(0.5**0.5)
    assert half.backbone_momentum == pytest.approx(1 - 0.5 * (1 - half.momentum))
    assert half.heads_lr == pytest.approx((RECIPE.lr[1] + RECIPE.at(19).lr) / 2)
    assert warm.at(29).ramp.anchor == pytest.approx(0.5)
    for step in (49, 60, 99):
        assert warm.at(step).ramp == Ramp(anchor=0.0)
        assert warm.at(step).heads_lr == pytest.approx(RECIPE.at(step).lr)
        assert warm.at(step).lr == RECIPE.at(step).lr
    assert schedule().at(99).ramp == Ramp()  # the anchor stays


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ramp_lr", "lr"),
        ("ramp_weight_decay", "weight_decay"),
        ("ramp_teacher", "teacher"),
        ("ramp_drop_path", "drop_path"),
        ("ramp_ibot", "ibot"),
    ],
)
def test_each_part_can_be_left_out(key: str, name: str) -> None:
    with_all, without = schedule().at(12).ramp, schedule(**{key: False}).at(12).ramp
    assert {n for n in vars(with_all) if getattr(with_all, n) != getattr(without, n)} == {name}
    assert getattr(without, name) == 1.0


def test_without_phases_it_is_the_recipe_at_once() -> None:
    warm = schedule(heads="0 steps", ramp="0 steps", ramp_layer_decay=1.0, anchor="none")
    for step in (0, 5, 99):
        assert warm.at(step).ramp == Ramp()
        assert warm.at(step).heads_lr == RECIPE.at(step).lr
        assert warm.at(step).last_layer_lr == RECIPE.at(step).last_layer_lr


def test_phases_longer_than_the_run_are_refused() -> None:
    with pytest.raises(UserError, match=r"warm_start\.heads \(90 steps\) and warm_start\.ramp \(20 steps\) exceed"):
        schedule(heads="90 steps")
    with pytest.raises(UserError, match=r"warm_start\.ramp: '5' is not a duration"):
        load_config(PretrainConfig, None, ["run.dir=a", "data.shards=b", "warm_start.ramp='5'"])


def test_the_heads_phase_ends_when_the_loss_falls_no_more() -> None:
    losses = [8.0, 8.0, 6.0, 6.0, 5.9, 5.9, 3.0, 3.0]
    whole = HeadsPhase(100, 2, 0.05)
    for step, loss in enumerate(losses):
        whole.record(step, loss)
    assert whole.end == 6  # from 6.0 to 5.9 is less than 5%; what comes later no longer matters
    for cut in range(len(losses)):  # the same when it is interrupted anywhere
        first, second = HeadsPhase(100, 2, 0.05), HeadsPhase(100, 2, 0.05)
        for step, loss in enumerate(losses[:cut]):
            first.record(step, loss)
        second.load(first.state())
        for step, loss in enumerate(losses[cut:], cut):
            second.record(step, loss)
        assert second.end == 6
    skipping = HeadsPhase(100, 2, 0.05)
    for step in range(50):
        skipping.record(step, math.nan)
    assert skipping.end == 100


def test_it_is_on_when_a_run_starts_from_weights() -> None:
    words = ["run.dir=a", "data.shards=b"]
    config = load_config(PretrainConfig, None, words)
    assert not config.starts_warm
    assert not config.trained_objective.anchored
    config = load_config(PretrainConfig, None, [*words, "init.weights=w.pth"])
    assert config.starts_warm
    assert config.trained_objective.anchored == (config.warm_start.anchor != "none")
    assert not load_config(PretrainConfig, None, [*words, "init.weights=w.pth", "warm_start.when=never"]).starts_warm
    both = [*words, "init.weights=w.pth", "warm_start.anchor=gram", "objective.gram_weight=1"]
    with pytest.raises(UserError, match="the same loss"):
        _ = load_config(PretrainConfig, None, both).trained_objective


def test_a_lower_drop_path_rate_adds_samples() -> None:
    drop_path = DropPath(vit_config("vit_test", drop_path=0.3), microgroup_images=4, local_crops=8, seed=7)
    some, whole, more = (drop_path.draw(ramp, 11, range(2, 4)) for ramp in (1.0, 0.0, 0.5))
    assert some is not None and whole is not None and more is not None
    assert [s.shape[-1] for s in whole] == [16, 64]
    assert np.array_equal(whole[0].sort(dim=-1).values[0, 0], np.arange(16))
    for few, many in zip(some, more, strict=True):
        assert few.shape[-1] < many.shape[-1]
        assert set(few[0, 0].tolist()) <= set(many[0, 0].tolist())


def test_feature_loss_is_zero_at_the_start_and_ignores_what_was_masked() -> None:
    generator = torch.Generator().manual_seed(0)
    cls, patches = torch.randn(3, 8, generator=generator), torch.randn(3, 5, 8, generator=generator)
    start = Tokens(cls, cls[:, None][:, :0], patches)
    masks = torch.zeros(3, 5, dtype=torch.bool)
    masks[0, 2] = True
    moved = patches.clone()
    moved[0, 2] = -moved[0, 2]
    assert float(feature_loss(Tokens(cls, start.registers, moved), start, masks)) == pytest.approx(0, abs=1e-6)
    masks[:] = False  # seen: one of 15 patches points the other way
    assert float(feature_loss(Tokens(cls, start.registers, moved), start, masks)) == pytest.approx(2 / 15, abs=1e-6)
    assert float(feature_loss(Tokens(-cls, start.registers, patches), start, masks)) == pytest.approx(2.0, abs=1e-6)


WARM = {
    "warm_start__heads": "6 steps",
    "warm_start__heads_plateau": 0.9,  # the first window that does not fall by 90% ends it: after two windows
    "warm_start__heads_window": "2 steps",
    "warm_start__ramp": "4 steps",
}


@pytest.fixture(scope="module")
def relramped(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained backbone."""
    run = tmp_path_factory.mktemp("relramped") / "run"
    run_ranks(words_of(run, shards, schedule__total="3 steps", run__seed=5), 1)
    return run / "checkpoints" / "step_0000003"


def test_the_teacher_is_the_start_bit_by_bit_until_the_heads_are_ready(
    shards: Path, relramped: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    changes = {**WARM, "init__weights": relramped, "schedule__total": "10 steps", "checkpoint__every_steps": 5}
    often = {**changes, "checkpoint__every_steps": 1, "checkpoint__keep_last": 20}
    said = run_ranks(words_of(whole, shards, **often), 1)
    assert "warm start: heads alone for 6 steps, or until their loss falls by less than 90%; then" in said
    start = tensors_of(relramped)
    at = {step: tensors_of(whole / "checkpoints" / f"step_{step:07d}") for step in (1, 4, 5)}
    backbone = [name for name in start if name.startswith("teacher.backbone.")]
    assert len(backbone) > 20
    for name in backbone:
        student = name.replace("teacher", "student")
        assert torch.equal(at[4][name], start[name]), name
        assert torch.equal(at[4][name.replace("teacher.backbone", "anchor_backbone")], start[name]), name
        frozen = name != "teacher.backbone.mask_token"
        assert torch.equal(at[4][student], start[name]) == frozen, name
        assert not torch.equal(at[5][student], start[name]), name
    head = "student.dino_head.mlp.0.weight"
    assert not torch.equal(at[4][head], at[1][head])
    ramped = [line["schedule"].get("ramp_lr", 1.0) for line in metrics_of(whole)]
    assert ramped == [0, 0, 0, 0, 0.25, 0.5, 0.75, 1, 1, 1]
    for stop_at in ("3 steps", None):  # in the middle of a window
        run_ranks(words_of(broken, shards, **changes, run__stop_at=stop_at), 1)
    assert_same_run(whole, broken, 10)
    shared = tmp_path / "shared"
    run_ranks(words_of(shared, shards, **changes, run__stop_at="9 steps"), 2)
    ones, twos = ([line["total"] for line in metrics_of(run)[:9]] for run in (whole, shared))
    assert ones == pytest.approx(twos, rel=1e-4)
