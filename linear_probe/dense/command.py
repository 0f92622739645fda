"""The verbs `dense` and `dense predict`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from linear_probe.dense.config import DenseConfig
from linear_probe.dense.page import main_table, write_results
from linear_probe.dense.predict import predict_images, predict_video
from linear_probe.dense.run import run_dense
from records.probe import ProbeFolder
from runtime.command_line import Command
from runtime.config import config_to_yaml
from runtime.console import log_to, say, table
from runtime.errors import UserError
from runtime.files import make_directory, remove_leftovers, write_text
from runtime.locks import directory_lock
from runtime.names import without_folders


def _dense_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", action="append", help="pictures with masks or boxes: a folder or an atlas; repeatable"
    )
    parser.add_argument("--test", action="append", help="further dataset that is tested only; repeatable")
    parser.add_argument("--out", help="folder for the results")


def _dense(arguments: argparse.Namespace, config: DenseConfig) -> None:
    given = {name: value for name in ("data", "test", "out") if (value := getattr(arguments, name))}
    config = replace(config, **given)
    config.check()
    out = make_directory(config.out)
    with directory_lock(out), log_to(ProbeFolder(out).log):
        if (out / "features").is_dir():
            remove_leftovers(out / "features")
        write_text(ProbeFolder(out).config, without_folders(config_to_yaml(config)))
        benchmark = run_dense(arguments.weights, config)
        write_results(benchmark, out)
        head, rows = main_table(benchmark)
        table("test pictures with a finding, 95% intervals over groups", head, rows)
        say(f"results: {out / 'index.html'}, table.md, results.json, predictions/, truth/, heads/")


def _predict_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--video", help="video to draw outlines into, instead of pictures")
    parser.add_argument("--weights", help="the network, when it is not where it was at training")
    parser.add_argument("--out", default="dense_predictions", help="folder to write, or the video (dense_predictions)")
    parser.add_argument("--device", default="cpu")


def _predict(arguments: argparse.Namespace, config: None) -> None:
    head, out = Path(arguments.head), Path(arguments.out)
    if bool(arguments.video) == bool(arguments.images):
        raise UserError("dense predict: name either pictures or --video FILE.")
    if arguments.video:
        predict_video(head, Path(arguments.video), out, arguments.weights, arguments.device)
    else:
        predict_images(head, arguments.images, out, arguments.weights, arguments.device)


DENSE_COMMANDS = (
    Command(
        "dense",
        "Segmentation and detection on frozen features; `dense predict` uses the heads.",
        _dense,
        ("WEIGHTS…",),
        DenseConfig,
        _dense_options,
    ),
    Command(
        "dense predict",
        "Masks and boxes of pictures, or a video with outlines, by trained heads.",
        _predict,
        ("HEAD", "[IMAGES…]"),
        None,
        _predict_options,
    ),
)
