from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from panendofm.runtime.errors import UserError
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import parameter_groups, set_step_values
from pretrain.schedules import ScheduleConfig, StepValues, resolve_schedule, steps_of

BATCH = 64 * 32


def test_golden_schedule(golden: Path) -> None:
    """The reference's ViT-L/14 recipe at 64 GPUs × 32, before, at and after every turning point and past the end."""
    expected = np.load(golden / "schedules_vitl14_64gpus.npz")
    schedule = resolve_schedule(ScheduleConfig(), BATCH)
    assert schedule.total_steps == expected["total_iterations"]
    assert schedule.warmup_steps == expected["warmup_iterations"]
    names = {"teacher_temp": "teacher_temperature"}
    for key in ("lr", "weight_decay", "momentum", "teacher_temp", "last_layer_lr"):
        found = [getattr(schedule.at(int(i)), names.get(key, key)) for i in expected["iteration"]]
        np.testing.assert_allclose(found, expected[key], rtol=1e-12, atol=0)


def test_durations_have_units() -> None:
    assert steps_of("warmup", "80 official epochs", BATCH) == 100_000
    assert steps_of("warmup", "12500 steps", BATCH) == 12_500
    assert steps_of("total", "2 data epochs", 1024, corpus_images=10_000_000) == 19_531
    assert steps_of("total", "0.5 official epochs", 1) == 625
    for text in ("80", "80 epochs", "eighty steps", ""):
        with pytest.raises(UserError, match=r"warmup: .* is not a duration; write a number with its unit"):
            steps_of("warmup", text, BATCH)
    with pytest.raises(UserError, match="needs the number of images"):
        steps_of("total", "2 data epochs", BATCH)
    with pytest.raises(UserError, match="freeze_last_layer"):
        ScheduleConfig(freeze_last_layer="1").check()


def test_contradictions_are_refused() -> None:
    with pytest.raises(UserError, match=r"warmup: 80 official epochs .* leaves nothing of total: 2 data epochs"):
        resolve_schedule(ScheduleConfig(total="2 data epochs"), 1024, corpus_images=10_000_000)
    with pytest.raises(UserError, match="cooldown belongs to shape: constant"):
        resolve_schedule(ScheduleConfig(cooldown="10 steps"), 1024)
    with pytest.raises(UserError, match="no step at all"):
        resolve_schedule(ScheduleConfig(total="0 steps"), 1024)
    with pytest.raises(UserError, match="exceed total"):
        config = ScheduleConfig(shape="constant", total="100 steps", warmup="60 steps", cooldown="60 steps")
        resolve_schedule(config, 1024)


def test_learning_rate_follows_the_square_root_of_the_batch() -> None:
    small, large = (resolve_schedule(ScheduleConfig(), batch).lr[1] for batch in (1024, 4096))
    assert small == pytest.approx(2e-4) and large == pytest.approx(4e-4)


def test_constant_schedule_does_not_know_its_end() -> None:
    """Stopping early means something: a step's values are the same however long the run was to be."""
    config = ScheduleConfig(shape="constant", total="1000 steps", warmup="100 steps")
    short, long = resolve_schedule(config, 1024), resolve_schedule(replace(config, total="90000 steps"), 1024)
    for step in (0, 50, 99, 100, 500, 999):
        assert short.at(step) == long.at(step)
    assert short.at(0).lr == 0 and short.at(99).lr == short.at(100).lr == short.at(999).lr == pytest.approx(2e-4)
    assert short.at(999).weight_decay == 0.04 and short.at(999).momentum == 0.994
    cosine = resolve_schedule(replace(config, shape="cosine"), 1024)
    assert cosine.at(999).lr < 1e-5  # as against the reference's


def test_cool_down_ends_at_the_ends() -> None:
    config = ScheduleConfig(shape="constant", total="1000 steps", warmup="100 steps", cooldown="200 steps")
    schedule = resolve_schedule(config, 1024)
    assert schedule.at(800).lr == schedule.at(100).lr
    assert schedule.at(800).lr > schedule.at(900).lr > schedule.at(1000).lr == 1e-6
    assert schedule.at(1000).momentum == 1.0 and schedule.at(5000).weight_decay == 0.2


def test_table_shows_the_turning_points() -> None:
    rows = resolve_schedule(ScheduleConfig(), BATCH).table()
    assert [row[:2] for row in rows] == [
        ("step", ""),
        ("0", "start"),
        ("1,250", "last layer freed"),
        ("37,500", "teacher warm"),
        ("100,000", "peak learning rate"),
        ("625,000", "end"),
    ]
    assert rows[4][2] == "0.000283"


def test_frozen_last_layer_does_not_move() -> None:
    names = ["dino_head.last_layer.weight_g", "dino_head.last_layer.weight_v", "dino_head.mlp.0.weight"]
    parameters = {name: torch.nn.Parameter(torch.ones(2, 2)) for name in names}
    optimizer = torch.optim.AdamW(parameter_groups(parameters.items(), OptimizerConfig()), lr=0.0)
    values = StepValues(1e-2, 0.0, 0.04, 0.99, 0.05)
    for last_layer_lr, moved in ((0.0, False), (1e-2, True)):
        for parameter in parameters.values():
            parameter.grad = torch.ones_like(parameter)
        set_step_values(optimizer, replace(values, last_layer_lr=last_layer_lr))
        optimizer.step()
        assert [not torch.equal(p, torch.ones(2, 2)) for p in parameters.values()] == [moved, moved, True]
