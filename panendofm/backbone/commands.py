"""What the verbs of `panendofm backbone` do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from panendofm.backbone.command_config import (
    EmbedConfig,
    InitConfig,
    RecenterConfig,
    ShowConfig,
    VerifyConfig,
)
from panendofm.backbone.config import architecture_name, vit_config
from panendofm.backbone.features import CLS_TOKEN, FeatureKind, device_of
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.vit import VisionTransformer
from panendofm.backbone.weights.load import load_backbone
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file


def run_verify(release: str, config: VerifyConfig) -> None:
    from panendofm.backbone.release import verify_release

    verify_release(release, config.signers)


def run_embed(network_spec: str, images_of: list[Path], config: EmbedConfig) -> None:
    from panendofm.backbone.embed import ImageList, embed
    from panendofm.backbone.networks import FeatureChoice, Reading, find_network, reading_of

    images = ImageList(images_of)
    network = find_network(network_spec)
    reading = reading_of(network, config.block, config.pooling)
    if len(reading.choices) > 1:
        raise UserError("block and pooling: embed has no labels to choose by; name one block and one pooling.")
    kind = FeatureKind(config.layers, config.patch_mean)
    if reading.kind != CLS_TOKEN and kind != CLS_TOKEN:
        raise UserError("block and pooling read one block; leave out layers and patch_mean.")
    if kind != CLS_TOKEN and not network.outputs.blocks:
        raise UserError(f"layers and patch_mean: {network.name} gives one vector per image, no tokens of blocks.")
    if network.outputs.blocks and config.layers > network.outputs.blocks:
        raise UserError(f"layers={config.layers}: this backbone has {network.outputs.blocks} blocks.")
    device = device_of(config.device, "device")
    if kind != CLS_TOKEN:
        reading = Reading(kind, (FeatureChoice(str(kind.to_dict())),))
    out = Path(config.out)
    rows, width = embed(network, images, out, reading, config.batch_size, device, config.half_precision, config.clean)
    say(f"{out}: {rows} × {width} features")


def run_show(network_spec: str, images: list[Path], config: ShowConfig) -> None:
    from panendofm.backbone.networks import find_network
    from panendofm.backbone.visualize import show, show_whole

    out = Path(config.out)
    network = find_network(network_spec)
    if config.whole:
        point = (config.point[0], config.point[1]) if config.point else None
        show_whole(network, images, out, config.side_px, point)
    else:
        show(network, images, out)
    say(f"{out}: {len(images)} images")


def run_info(network: str) -> None:
    loaded = load_backbone(network)
    vit, preprocessing = loaded.model.config, loaded.preprocessing
    parameters = sum(p.numel() for p in loaded.model.parameters())
    tensors = len(loaded.model.state_dict())
    rows = {
        "source": loaded.source,
        "architecture": loaded.architecture,
        "parameters": f"{parameters:,} in {tensors} tensors, 0 missing, 0 unexpected",
        "sizes": f"width {vit.width}, {vit.depth} blocks, {vit.heads} heads, patch {vit.patch_px} px, {vit.ffn}, "
        f"{vit.registers} registers",
        "position grid": f"{vit.grid}×{vit.grid} ({vit.image_px} px), offset {vit.position_offset:g}"
        + (", antialiased" if vit.position_antialias else ""),
        "pre-processing": f"resize {preprocessing.resize_px} px {preprocessing.interpolation}, crop "
        f"{preprocessing.crop_px} px",
        "weights sha256": loaded.weights_sha256,
        "certificate": "yes" if loaded.certificate is not None else "none: leakage into evaluation sets is not known",
        **{key: _shown(value) for key, value in vars(loaded.origin).items() if value is not None},
    }
    width = max(map(len, rows))
    say("\n".join(f"{name.ljust(width)}  {value}" for name, value in rows.items()))


def _shown(value: Any) -> str:
    if isinstance(value, list):  # the corpora of a release
        return "; ".join(
            f"{part.name} ({part.license or 'license not stated'}, {part.frames:,} frames)" for part in value
        )
    return str(value)


def run_init(architecture: str, config: InitConfig) -> None:
    changes = {} if config.image_px is None else {"image_px": config.image_px}
    vit = vit_config(architecture, **changes)
    torch.manual_seed(config.seed)
    sha256 = _write(VisionTransformer(vit), Preprocessing(), config.out)
    say(f"{config.out}: {architecture_name(vit)}, untrained, seed {config.seed}")
    say(f"weights sha256 {sha256}")


def run_recenter(network: str, sources: list[Path], config: RecenterConfig) -> None:
    from panendofm.backbone.recenter import recentered, some_images

    device = device_of(config.device, "device")
    loaded = load_backbone(network)
    preprocessing = loaded.preprocessing
    if config.crop_px is not None:
        preprocessing = preprocessing.at_crop(config.crop_px)
    images = some_images(sources, config.images)
    found = recentered(loaded, images, preprocessing, config.batch_size, device)
    sha256 = _write(found.backbone.model, preprocessing, config.out)
    say(
        f"{config.out}: {loaded.architecture}; the mean of {found.images} images held {found.common_before:.1%} of "
        f"the features' length, now {found.common_after:.1%}"
    )
    say(f"weights sha256 {sha256}")
    if loaded.certificate is not None:
        say("a single file holds no leakage certificate: that of the weights before does not go with it.")


def _write(model: VisionTransformer, preprocessing: Preprocessing, path: str) -> str:
    """A safetensors file of a whole backbone; returns the checksum of its values."""
    from safetensors.torch import save

    from panendofm.backbone.release import Export

    export = Export(model, preprocessing, "float32")
    state = export.model.state_dict()
    with atomic_file(path) as stream:
        stream.write(save(state, export.header(state)))
    return export.values_sha256(state)
