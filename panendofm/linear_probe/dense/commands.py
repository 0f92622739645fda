"""What the verbs of `panendofm dense` do."""

from __future__ import annotations

from pathlib import Path

from panendofm.linear_probe.dense.config import DenseConfig, DensePredictConfig
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


def run_dense_tasks(networks: list[str], config: DenseConfig) -> None:
    out = make_directory(config.out)
    files = ProbeFolder(out)
    with directory_lock(out), log_to(files.log):
        if files.features.is_dir():
            remove_leftovers(files.features)
        write_text(files.config, without_folders(config_to_yaml(config)))
        benchmark = run_dense(networks, config)
        write_results(benchmark, files)
        main = main_table(benchmark.results)
        intervals = f"{100 * config.bootstrap.confidence:g}% intervals over groups"
        table(f"test images with a finding, {intervals}", main.columns, main.rows)
        say(f"results: {files.page}, {files.table.name}, {files.results.name}, predictions/, truth/, heads/")


def run_predict(head: Path, images: list[str], config: DensePredictConfig) -> None:
    if bool(config.video) == bool(images):
        raise UserError("dense predict: name either images or video=FILE.")
    if config.video:
        predict_video(head, Path(config.video), config)
    else:
        predict_images(head, images, config)
