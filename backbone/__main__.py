"""`python -m backbone export|verify|embed|show|info|init|recenter`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from backbone.config import architecture_name, vit_config
from backbone.features import CLS_TOKEN, FeatureKind, device_of
from backbone.load import load_backbone
from backbone.networks.reading import LAST, POOLINGS
from backbone.preprocessing import Preprocessing
from backbone.vit import VisionTransformer
from runtime.command_line import Command, run_stage
from runtime.console import say
from runtime.errors import UserError
from runtime.files import atomic_file


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="DIR", help="the release folder to write")
    parser.add_argument("--format", default="hub,timm,transformers,onnx", help="formats, with commas (default: all)")
    parser.add_argument("--dtype", default="float32", help="float32, float16 or bfloat16 (ONNX is always float32)")
    parser.add_argument("--name", help="name in the model card (default: the folder's)")
    parser.add_argument("--licence", help="licence in the model card, e.g. apache-2.0")
    parser.add_argument("--image-px", type=int, help="store positions for this image side (default: as they are)")
    parser.add_argument("--role", default="teacher", help="teacher or student, where a checkpoint holds both")
    parser.add_argument(
        "--average-with-start",
        type=float,
        default=0.0,
        metavar="SHARE",
        help="mix in so much of the weights that the run began with, such as 0.3",
    )
    parser.add_argument("--start", metavar="WEIGHTS", help="starting weights to average with (default: the run's)")
    parser.add_argument(
        "--start-note",
        metavar="TEXT",
        help="on the weights that training began with, for the model card: origin, licence, what was done to them",
    )
    parser.add_argument("--data-note", metavar="TEXT", help="on the pictures, for the model card: whom to name")
    parser.add_argument(
        "--allow-worse-than-start", action="store_true", help="export what kNN found worse than the run's start"
    )
    parser.add_argument("--sign", metavar="KEY", help="sign the checksums with this ssh key (needs ssh-keygen)")
    parser.add_argument("--check-image", action="append", default=[], metavar="FILE", help="image to compare on")


def _export(arguments: argparse.Namespace, config: Any) -> None:
    from backbone.release import export_release

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


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signers", metavar="FILE", help="demand a signature of one of these: an allowed_signers file of ssh-keygen"
    )


def _verify(arguments: argparse.Namespace, config: Any) -> None:
    from backbone.release import verify_release

    verify_release(arguments.release, arguments.signers)


def _embed_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, … (default: a GPU when there is one)")
    parser.add_argument("--layers", type=int, default=1, help="cls tokens of so many last blocks")
    parser.add_argument("--patch-mean", action="store_true", help="append the mean patch token")
    parser.add_argument("--block", default=LAST, help="block to read: last, or a number from 1 or from -1 (the last)")
    parser.add_argument("--pooling", default=POOLINGS[0], help="tokens to read: cls, mean (of the patches) or both")
    parser.add_argument("--half", action="store_true", help="compute in bfloat16")
    parser.add_argument(
        "--clean",
        action="store_true",
        help="read pictures as training frames are: cut to the field of view, without position box and text",
    )


def _embed(arguments: argparse.Namespace, config: Any) -> None:
    from backbone.embed import ImageList, embed
    from backbone.networks import FeatureChoice, Reading, find_network, reading_of

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


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="show.png", metavar="FILE", help="picture to write (default: show.png)")
    parser.add_argument("--whole", action="store_true", help="whole pictures at full resolution: PCA and similarity")
    parser.add_argument("--side-px", type=int, help="with --whole: side of the network's input; larger is finer")
    parser.add_argument("--point", metavar="X,Y", help="with --whole: pixel that the rest is compared with")


def _show(arguments: argparse.Namespace, config: Any) -> None:
    from backbone.networks import find_network
    from backbone.pictures import show, show_whole

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


def _info(arguments: argparse.Namespace, config: Any) -> None:
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


def _init_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="safetensors file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--image-px", type=int, help="image side that positions are stored for (default: the name's)")


def _init(arguments: argparse.Namespace, config: Any) -> None:
    changes = {} if arguments.image_px is None else {"image_px": arguments.image_px}
    vit = vit_config(arguments.architecture, **changes)
    torch.manual_seed(arguments.seed)
    sha256 = _write(VisionTransformer(vit), Preprocessing(), arguments.to)
    say(f"{arguments.to}: {architecture_name(vit)}, untrained, seed {arguments.seed}")
    say(f"weights sha256 {sha256}")


def _recenter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="safetensors file to write")
    parser.add_argument("--images", type=int, default=2000, help="at most so many pictures, evenly chosen (2000)")
    parser.add_argument("--crop-px", type=int, help="side of the network's input (default: as the weights say)")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, … (default: a GPU when there is one)")


def _recenter(arguments: argparse.Namespace, config: Any) -> None:
    from backbone.recenter import recentered, some_images

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

    from backbone.release import Export

    export = Export(model, preprocessing, "float32")
    state = export.model.state_dict()
    with atomic_file(path) as stream:
        stream.write(save(state, export.header(state)))
    return export.values_sha256(state)


COMMANDS = [
    Command("export", "write a release: formats, model card, checksums", _export, ("SOURCE",), None, _export_options),
    Command("verify", "whether a release is whole and unchanged", _verify, ("RELEASE",), None, _verify_options),
    Command(
        "embed",
        "features of images, folders of images or .tar shards as a Parquet table",
        _embed,
        ("WEIGHTS", "IMAGES_OR_SHARDS…"),
        None,
        _embed_options,
    ),
    Command("show", "a picture: image, PCA of patches, attention", _show, ("WEIGHTS", "IMAGES…"), None, _show_options),
    Command("info", "what a file or folder of weights holds", _info, ("WEIGHTS",)),
    Command("init", "an untrained backbone, e.g. vit_tiny_patch14", _init, ("ARCHITECTURE",), None, _init_options),
    Command(
        "recenter",
        "weights whose features have mean zero over images, folders of images or .tar shards",
        _recenter,
        ("WEIGHTS", "IMAGES_OR_SHARDS…"),
        None,
        _recenter_options,
    ),
]

if __name__ == "__main__":
    run_stage("backbone", COMMANDS)
