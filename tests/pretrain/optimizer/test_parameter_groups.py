from __future__ import annotations

import json
from pathlib import Path

import pytest
from golden_steps import HEAD, OPTIMIZER, PATCH_HEAD, load_golden

from panendofm.backbone import vit_config
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import build_optimizer, multipliers_of, parameter_groups, set_step_values
from pretrain.schedules import Ramp, StepValues


def test_golden_multipliers(golden: Path) -> None:
    expected = json.loads((golden / "param_groups_layerwise_0.9.json").read_text())
    objective = load_golden(golden, "step_sinkhorn_separate_heads").objective()
    found = {}
    for group in parameter_groups(objective.student.named_parameters(), OPTIMIZER):
        for name in group["names"]:
            found[name] = {key: group[key] for key in ("lr_multiplier", "wd_multiplier", "is_last_layer")}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name] == pytest.approx(values), name


def test_registers_are_tokens_of_the_first_layer() -> None:
    config = OptimizerConfig(layerwise_decay=0.5)
    assert multipliers_of("backbone.register_tokens", 3, config) == (0.5**4, 1.0, False, False, 4)
    assert multipliers_of("backbone.cls_token", 3, config) == multipliers_of("backbone.register_tokens", 3, config)


def test_groups_are_few_and_hold_every_parameter_once(golden: Path) -> None:
    objective = load_golden(golden, "step_sinkhorn_separate_heads").objective()
    optimizer = build_optimizer(objective.student, OPTIMIZER)
    ids = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(ids) == sorted(id(p) for p in objective.student.parameters())
    assert len(optimizer.param_groups) == 14  # what trains with the heads stands apart


def test_step_values_reach_the_groups() -> None:
    objective = DinoObjective(vit_config("vit_test"), ObjectiveConfig(dino_head=HEAD, ibot_head=PATCH_HEAD))
    optimizer = build_optimizer(objective.student, OPTIMIZER)
    set_step_values(optimizer, StepValues(1.0, 0.25, 0.5, 0.99, 0.05))
    seen = {name: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for name in group["names"]}
    assert seen["dino_head.last_layer.weight_g"] == (0.25, 0.5)
    assert seen["backbone.norm.weight"] == (1.0, 0.0)
    assert seen["backbone.patch_embed.proj.weight"] == pytest.approx((0.9**4 * 0.2, 0.5))


def test_ramp_holds_back_the_backbone_but_not_what_trains_with_the_heads() -> None:
    objective = DinoObjective(vit_config("vit_test"), ObjectiveConfig(dino_head=HEAD, ibot_head=PATCH_HEAD))
    optimizer = build_optimizer(objective.student, OptimizerConfig())
    blocks = objective.student["backbone"].config.depth
    ramp = Ramp(lr=0.5, weight_decay=0.25, layer_decay=0.1)
    set_step_values(optimizer, StepValues(1.0, 3.0, 0.4, 0.99, 0.05, heads_lr=2.0, ramp=ramp))
    seen = {name: (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for name in group["names"]}
    assert seen["dino_head.last_layer.weight_g"] == (3.0, 0.4)
    assert seen["ibot_head.mlp.0.weight"] == seen["backbone.mask_token"] == (2.0, 0.4)
    assert seen["backbone.norm.weight"] == (0.5, 0.0)
    assert seen[f"backbone.blocks.{blocks - 1}.mlp.fc1.weight"] == pytest.approx((0.05, 0.1))
    assert seen["backbone.cls_token"] == pytest.approx((0.5 * 0.1 ** (blocks + 1), 0.1))
