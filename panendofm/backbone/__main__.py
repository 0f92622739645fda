"""`panendofm export|verify|embed|show|info|init|recenter`."""

from __future__ import annotations

import argparse

from panendofm.backbone.networks.feature_words import LAST, POOLINGS
from panendofm.runtime.command_line import Command, Stage, run_stage


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


def _verify_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--signers", metavar="FILE", help="demand a signature of one of these: an allowed_signers file of ssh-keygen"
    )


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


def _show_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="show.png", metavar="FILE", help="picture to write (default: show.png)")
    parser.add_argument("--whole", action="store_true", help="whole pictures at full resolution: PCA and similarity")
    parser.add_argument("--side-px", type=int, help="with --whole: side of the network's input; larger is finer")
    parser.add_argument("--point", metavar="X,Y", help="with --whole: pixel that the rest is compared with")


def _init_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="safetensors file to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--image-px", type=int, help="image side that positions are stored for (default: the name's)")


def _recenter_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", required=True, metavar="FILE", help="safetensors file to write")
    parser.add_argument("--images", type=int, default=2000, help="at most so many pictures, evenly chosen (2000)")
    parser.add_argument("--crop-px", type=int, help="side of the network's input (default: as the weights say)")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, … (default: a GPU when there is one)")


COMMANDS = [
    Command(
        "export",
        "write a release: formats, model card, checksums",
        "panendofm.backbone.commands:run_export",
        ("SOURCE",),
        None,
        _export_options,
    ),
    Command(
        "verify",
        "whether a release is whole and unchanged",
        "panendofm.backbone.commands:run_verify",
        ("RELEASE",),
        None,
        _verify_options,
    ),
    Command(
        "embed",
        "features of images, folders of images or .tar shards as a Parquet table",
        "panendofm.backbone.commands:run_embed",
        ("WEIGHTS", "IMAGES_OR_SHARDS…"),
        None,
        _embed_options,
    ),
    Command(
        "show",
        "a picture: image, PCA of patches, attention",
        "panendofm.backbone.commands:run_show",
        ("WEIGHTS", "IMAGES…"),
        None,
        _show_options,
    ),
    Command("info", "what a file or folder of weights holds", "panendofm.backbone.commands:run_info", ("WEIGHTS",)),
    Command(
        "init",
        "an untrained backbone, e.g. vit_tiny_patch14",
        "panendofm.backbone.commands:run_init",
        ("ARCHITECTURE",),
        None,
        _init_options,
    ),
    Command(
        "recenter",
        "weights whose features have mean zero over images, folders of images or .tar shards",
        "panendofm.backbone.commands:run_recenter",
        ("WEIGHTS", "IMAGES_OR_SHARDS…"),
        None,
        _recenter_options,
    ),
]
STAGE = Stage("panendofm backbone", COMMANDS, extra="export")

if __name__ == "__main__":
    run_stage(STAGE)
