"""panendofm dense: segmentation and detection on frozen features."""

from __future__ import annotations

import argparse

from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.runtime.command_line import Command, Stage, run_stage


def _dense_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", action="append", help="pictures with masks or boxes: a folder or an atlas; repeatable"
    )
    parser.add_argument("--test", action="append", help="further dataset that is tested only; repeatable")
    parser.add_argument("--out", help="folder for the results")


def _predict_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--video", help="video to draw outlines into, instead of pictures")
    parser.add_argument("--weights", help="the network, when it is not where it was at training")
    parser.add_argument("--out", default="dense_predictions", help="folder to write, or the video (dense_predictions)")
    parser.add_argument("--device", default="cpu")


COMMANDS = [
    Command(
        "",
        "Segmentation and detection on frozen features.",
        "panendofm.linear_probe.dense.commands:run_dense_tasks",
        ("WEIGHTS…",),
        DenseConfig,
        _dense_options,
    ),
    Command(
        "predict",
        "Masks and boxes of pictures, or a video with outlines, by trained heads.",
        "panendofm.linear_probe.dense.commands:run_predict",
        ("HEAD", "[IMAGES…]"),
        options=_predict_options,
    ),
]
STAGE = Stage("panendofm dense", COMMANDS, extra="eval")

if __name__ == "__main__":
    run_stage(STAGE)
