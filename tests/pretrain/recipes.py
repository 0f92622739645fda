"""Augmentations that the tests compare: the reference's, and that of the shipped endoscopy config."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from panendofm.runtime.config import CONFIGS, load_config
from pretrain.config import PretrainConfig
from pretrain.data.augment import AugmentConfig

_SHIPPED = CONFIGS / "pretrain" / "panendofm_vitl14.yaml"


def recipe(name: str, **changes: Any) -> AugmentConfig:
    """`reference`: the defaults. `endoscopy`: what users of the shipped config train with."""
    config = AugmentConfig() if name == "reference" else load_config(PretrainConfig, _SHIPPED).augment
    config = replace(config, **changes)
    config.check()
    return config
