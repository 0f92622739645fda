"""What the verbs of `panendofm dense` do."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from panendofm.linear_probe.dense.config import DenseConfig
from panendofm.linear_probe.dense.predict import predict_images, predict_video
from panendofm.linear_probe.dense.results.page import main_table, write_results
from panendofm.linear_probe.dense.run import run_dense
from panendofm.records.probe import ProbeFolder
from panendofm.runtime.config import config_to_yaml
from panendofm.runtime.console import log_to, say, table
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, remove_leftovers, write_text
from panendofm.runtime.locks import directory_lock
from panendofm.runtime.names import without_folders


def run_dense_tasks(arguments: argparse.Namespace, config: DenseConfig) -> None:
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


def run_predict(arguments: argparse.Namespace, config: None) -> None:
    head, out = Path(arguments.head), Path(arguments.out)
    if bool(arguments.video) == bool(arguments.images):
        raise UserError("dense predict: name either pictures or --video FILE.")
    if arguments.video:
        predict_video(head, Path(arguments.video), out, arguments.weights, arguments.device)
    else:
        predict_images(head, arguments.images, out, arguments.weights, arguments.device)
