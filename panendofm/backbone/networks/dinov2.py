"""Backbones of DINOv2's architecture: files and folders that `load_backbone` reads, and untrained ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from panendofm.backbone.config import ViTConfig, vit_config, vit_names
from panendofm.backbone.networks.network import BASELINE, Description, Loaded, Outputs, Source
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.vit import VisionTransformer
from panendofm.backbone.weights.load import load_backbone, weights_checksum
from panendofm.records.run import RunFolder, refuse_half_written

_UNTRAINED_SEED = 0


def backbone_source(path: Path) -> Source:
    """A run stands for its selected checkpoint, else its latest."""
    refuse_half_written(path)
    run = RunFolder(path)
    weights = run.selected_or_latest() if run.is_run() else path
    return Source(
        # A link such as RUN/best stands for the checkpoint that it points at.
        name=path.resolve().name if path.is_dir() else path.stem,
        read=partial(_read_backbone, weights),
        kind="backbone",
        files=weights,
        path=weights,
    )


def untrained_source(rest: str) -> Source:
    """`untrained:NAME` or `untrained:PATH`."""
    if rest in vit_names():
        return Source(f"untrained-{rest}", partial(_untrained, vit_config(rest), Preprocessing(), rest), baseline=True)
    loaded = load_backbone(rest)
    read = partial(_untrained, loaded.model.config, loaded.preprocessing, loaded.architecture)
    return Source(f"untrained-{loaded.architecture}", read, baseline=True)


def _read_backbone(path: Path) -> Loaded:
    loaded = load_backbone(path)
    description = Description(
        loaded.architecture,
        loaded.weights_sha256,
        loaded.preprocessing,
        _outputs(loaded.model.config),
        loaded.source,
        loaded.origin.step,
        loaded.certificate,
    )
    return Loaded(loaded.model, description)


def _untrained(config: ViTConfig, preprocessing: Preprocessing, name: str) -> Loaded:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_UNTRAINED_SEED)
        model = VisionTransformer(config).eval()
    checksum = weights_checksum(config, model.state_dict())
    return Loaded(model, Description(name, checksum, preprocessing, _outputs(config), BASELINE))


def _outputs(config: ViTConfig) -> Outputs:
    return Outputs(blocks=config.depth, maps=config.depth)
