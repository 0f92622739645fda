"""configs/pretrain/panendofm_published.yaml is what the paper says: DINOv2's default file and nothing of our own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from panendofm.runtime.config import load_config
from pretrain.config import PretrainConfig
from pretrain.data.augment.config import AugmentConfig

CONFIG = Path(__file__).resolve().parent.parent.parent / "configs" / "pretrain" / "panendofm_published.yaml"


def test_the_published_recipe_has_dinov2s_default_values() -> None:
    config = load_config(PretrainConfig, CONFIG)
    assert asdict(config.augment) == asdict(AugmentConfig())  # no augmentation of ours
    assert (config.augment.vertical_flip_probability, config.augment.quarter_turns) == (0.0, False)
    assert (config.augment.hue, config.augment.inside_field_of_view) == (0.1, False)
    head = config.objective.dino_head
    assert (head.prototypes, head.bottleneck, head.layers, head.hidden) == (65536, 256, 3, 2048)
    assert (config.objective.targets, config.objective.separate_ibot_head) == ("centering", False)
    assert (config.objective.koleo_weight, config.objective.ibot_weight) == (0.1, 1.0)
    assert config.model.drop_path == 0.3
    schedule = config.schedule
    assert (schedule.total, schedule.warmup) == ("100 official epochs", "10 official epochs")
    assert (schedule.base_lr, schedule.min_lr) == (4e-3, 1e-6)
    assert (schedule.weight_decay_start, schedule.weight_decay_end) == (0.04, 0.4)
    assert (schedule.momentum_start, schedule.momentum_end) == (0.992, 1.0)
    assert schedule.freeze_last_layer == "1 official epochs"
    assert (config.optimizer.layerwise_decay, config.optimizer.patch_embed_lr_multiplier) == (0.9, 0.2)
    assert (config.optimizer.clip_norm, config.batch.images) == (3.0, 1024)


def test_it_has_no_warm_start_no_anchor_and_the_published_selection() -> None:
    config = load_config(PretrainConfig, CONFIG)
    assert config.warm_start.when == config.regression_guard.when == "never"
    assert (config.objective.gram_weight, config.objective.feature_weight) == (0.0, 0.0)
    assert config.monitor.evaluation.selection.metric == "top5_k100"
    assert 100 in config.monitor.evaluation.ks
    assert config.run.stop_at == "2 data epochs"
    assert config.init.weights is not None
