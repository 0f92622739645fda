"""Images for a report that the run has not drawn itself: its patches over training, its neighbors."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict, fields
from pathlib import Path

import yaml

from eval_knn import EvalConfig, SetConfig
from panendofm.records.evaluation import read_selection
from panendofm.records.run import RunFolder, patch_image
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.yaml_files import read_yaml
from pretrain import PretrainConfig

IMAGES = 4


def draw_images(run: RunFolder) -> None:
    """What `backbone show` draws of every kept checkpoint, and `eval_knn plots=true` on the chosen one."""
    with tempfile.TemporaryDirectory() as scratch:
        images = _first_images(run, Path(scratch))
        make_directory(run.images)
        if images:
            _draw_patches(run, images)
        selected, config = run.selected(), _evaluation_config(run, Path(scratch))
        if selected is not None and config is not None and read_selection(run) is not None:
            _run(["eval_knn", str(selected), str(config), "plots=true"])


def _draw_patches(run: RunFolder, images: list[Path]) -> None:
    """Here and not by a command each, which would import torch for longer than it draws. What can't be is left out."""
    from panendofm.backbone.networks import find_network
    from panendofm.backbone.visualize import show

    for step in reversed(run.steps()):
        out = patch_image(run, step)
        if out.exists():
            continue
        say(f"drawing {out}")
        try:
            show(find_network(str(run.checkpoint(step))), images, out)
        except UserError as error:
            warn(f"no image of {run.checkpoint(step).name}: {error}")


def _evaluation_config(run: RunFolder, scratch: Path) -> Path | None:
    """How the run's checkpoints were evaluated on the set that selects."""
    selecting = _selecting_set(run)
    if selecting is None:
        return None
    path = scratch / "evaluation.yaml"
    values = asdict(selecting)
    known = {item.name for item in fields(EvalConfig)}
    path.write_text(yaml.safe_dump({name: values[name] for name in values if name in known}), encoding="utf-8")
    return path


def _selecting_set(run: RunFolder) -> SetConfig | None:
    """Of a monitor's own job, or of the training itself."""
    of_job = run.job_config("watch")
    if of_job.is_file():
        config = load_config(EvalConfig, of_job)
        return config.watcher.sets_with(config).selecting
    monitor = load_config(PretrainConfig, run.config).monitor
    return monitor.sets.selecting if monitor.mode == "inline" else None


def _first_images(run: RunFolder, scratch: Path) -> list[Path]:
    """A few frames of the first shard."""
    shards = sorted(Path(read_yaml(run.config)["data"]["shards"]).glob("*.tar"))
    found: list[Path] = []
    if shards:
        with tarfile.open(shards[0]) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.name.endswith(".jpg") else None
                if stream is not None and len(found) < IMAGES:
                    found.append(scratch / f"{len(found)}.jpg")
                    found[-1].write_bytes(stream.read())
    return found


def _run(words: list[str]) -> None:
    say("python -m " + " ".join(words))
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last_line = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "")
        warn(f"no image from python -m {words[0]}: {last_line}")
