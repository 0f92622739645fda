"""What the verbs of `panendofm backbone` do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from panendofm.backbone.config import architecture_name, vit_config
from panendofm.backbone.features import CLS_TOKEN, FeatureKind, device_of
from panendofm.backbone.preprocessing import Preprocessing
from panendofm.backbone.vit import VisionTransformer
from panendofm.backbone.weights.load import load_backbone
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_file


def run_export(arguments: argparse.Namespace, config: Any) -> None:
    from panendofm.backbone.release import export_release

    export_release(
        arguments.source,
        arguments.to,
        tuple(part for part in arguments.format.split(",") if part),
        arguments.dtype,
        arguments.name,
        arguments.licence,
        arguments.image_px,
        arguments.role,
        tuple(Path(path) for path in arguments.check_image),
        arguments.average_with_start,
        arguments.start,
        arguments.allow_worse_than_start,
        arguments.sign,
        arguments.start_note,
        arguments.data_note,
    )


def run_verify(arguments: argparse.Namespace, config: Any) -> None:
    from panendofm.backbone.release import verify_release

    verify_release(arguments.release, arguments.signers)


def run_embed(arguments: argparse.Namespace, config: Any) -> None:
    from panendofm.backbone.embed import ImageList, embed
    from panendofm.backbone.networks import FeatureChoice, Reading, find_network, reading_of

    images = ImageList([Path(source) for source in arguments.images_or_shards])
    network = find_network(arguments.weights)
    reading = reading_of(network, arguments.block, arguments.pooling, "--")
    if len(reading.choices) > 1:
        raise UserError("--block and --pooling: embed has no labels to choose by; name one block and one pooling.")
    kind = FeatureKind(arguments.layers, arguments.patch_mean)
    if reading.kind != CLS_TOKEN and kind != CLS_TOKEN:
        raise UserError("--block and --pooling read one block; leave out --layers and --patch-mean.")
    if kind != CLS_TOKEN and not network.outputs.blocks:
        raise UserError(f"--layers and --patch-mean: {network.name} gives one vector per image, no tokens of blocks.")
    if network.outputs.blocks and arguments.layers > network.outputs.blocks:
        raise UserError(f"--layers {arguments.layers}: this backbone has {network.outputs.blocks} blocks.")
    device = device_of(arguments.device, "--device")
    out = Path(arguments.out)
    if kind != CLS_TOKEN:
        reading = Reading(kind, (FeatureChoice(str(kind.to_dict())),))
    rows, width = embed(network, images, out, reading, arguments.batch_size, device, arguments.half, arguments.clean)
    say(f"{out}: {rows} × {width} features")


def run_show(arguments: argparse.Namespace, config: Any) -> None:
    from panendofm.backbone.networks import find_network
    from panendofm.backbone.visualize import show, show_whole

    out = Path(arguments.out)
    if out.suffix not in (".png", ".jpg", ".pdf", ".svg"):
        raise UserError(f"--out {out}: name a .png, .jpg, .pdf or .svg file.")
    images = [Path(image) for image in arguments.images]
    if arguments.whole:
        if out.suffix not in (".png", ".jpg"):
            raise UserError(f"--out {out}: --whole writes a .png or .jpg file.")
        show_whole(find_network(arguments.weights), images, out, arguments.side_px, _point(arguments.point))
    elif arguments.side_px or arguments.point:
        raise UserError("--side-px and --point need --whole; add it.")
    else:
        show(find_network(arguments.weights), images, out)
    say(f"{out}: {len(arguments.images)} images")


def _point(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--point {text}: write two numbers in pixels, such as 120,80.") from None
    return x, y


def run_info(arguments: argparse.Namespace, config: Any) -> None:
    loaded = load_backbone(arguments.weights)
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
        **{key: _shown(value) for key, value in loaded.metadata.items() if value is not None},
    }
    width = max(map(len, rows))
    say("\n".join(f"{name.ljust(width)}  {value}" for name, value in rows.items()))


def _shown(value: Any) -> str:
    if isinstance(value, list):  # the corpora of a release
        return "; ".join(
            f"{part.name} ({part.licence or 'licence not stated'}, {part.frames:,} frames)" for part in value
        )
    return str(value)


def run_init(arguments: argparse.Namespace, config: Any) -> None:
    changes = {} if arguments.image_px is None else {"image_px": arguments.image_px}
    vit = vit_config(arguments.architecture, **changes)
    torch.manual_seed(arguments.seed)
    sha256 = _write(VisionTransformer(vit), Preprocessing(), arguments.to)
    say(f"{arguments.to}: {architecture_name(vit)}, untrained, seed {arguments.seed}")
    say(f"weights sha256 {sha256}")


def run_recenter(arguments: argparse.Namespace, config: Any) -> None:
    from panendofm.backbone.recenter import recentered, some_images

    if arguments.images < 1:
        raise UserError(f"--images {arguments.images}: a mean needs at least one picture.")
    device = device_of(arguments.device, "--device")
    loaded = load_backbone(arguments.weights)
    preprocessing = loaded.preprocessing
    if arguments.crop_px is not None:
        preprocessing = preprocessing.at_crop(arguments.crop_px)
    images = some_images([Path(source) for source in arguments.images_or_shards], arguments.images)
    found = recentered(loaded, images, preprocessing, arguments.batch_size, device)
    sha256 = _write(found.backbone.model, preprocessing, arguments.to)
    say(
        f"{arguments.to}: {loaded.architecture}; the mean of {found.images} pictures held {found.common_before:.1%} of "
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
