"""What can be evaluated, by the word that the user types.

A file or folder that `load_backbone` reads; a run (its latest and its best checkpoint); and baselines: `pixels` (the
picture itself), `efficientnet-lite0` (ImageNet weights from a package), `timm:NAME` (weights in the local cache) and
`timm:NAME@FILE`. Weights are read only when features have to be computed: what is needed to find cached features is
remembered by the files' sizes and times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from backbone import LoadedBackbone, load_backbone
from backbone.preprocessing import Preprocessing
from eval_knn.timm_networks import (
    IMAGENET_ARCHITECTURE,
    IMAGENET_BASELINE,
    Loaded,
    imagenet_baseline_file,
    load_timm,
)
from records.documents import parse_document
from records.run import RunFolder, refuse_half_written
from records.shards import Certificate
from runtime.errors import UserError
from runtime.files import read_json, write_json

PIXELS = "pixels"
_PIXELS_SIDE = 16
_FORMAT = 1


@dataclass(frozen=True)
class Network:
    """Something that turns pictures into features."""

    name: str
    source: str
    architecture: str
    weights_sha256: str
    preprocessing: Preprocessing
    load: Callable[[], nn.Module]
    step: int | None = None
    path: Path | None = None
    certificate: Certificate | None = None
    pretrained_here: bool = True  # False for baselines, which no corpus of ours has touched


class Pixels(nn.Module):
    """The picture itself, averaged down to 16 × 16 colours: what a network has to beat."""

    def forward(self, images: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(images, _PIXELS_SIDE).flatten(1)  # [B, 3 · 16 · 16]


def expand(word: str) -> list[str]:
    """A run stands for its latest and its best checkpoint; every other word for itself."""
    run = RunFolder(Path(word))
    if run.is_run():
        return [str(checkpoint) for checkpoint in _latest_and_best(run)]
    return [word]


def find_network(word: str, cache: Path) -> Network:
    """The network that a word on the command line stands for."""
    if word == PIXELS:
        return _pixels()
    if word == IMAGENET_BASELINE:
        return _timm_network(word, IMAGENET_ARCHITECTURE, imagenet_baseline_file(), cache)
    if word.startswith("timm:"):
        name, _, file = word.removeprefix("timm:").partition("@")
        return _timm_network(word, name, Path(file) if file else None, cache)
    return _from_path(Path(word), cache)


def _pixels() -> Network:
    digest = hashlib.sha256(f"pixels {_PIXELS_SIDE}".encode()).hexdigest()
    return Network(PIXELS, "baseline", "16x16 pixels", digest, Preprocessing(), Pixels, pretrained_here=False)


def _timm_network(word: str, name: str, file: Path | None, cache: Path) -> Network:
    """Weights in a file are read when features are computed; those in the Hugging Face cache have no known file."""
    loaded: list[Loaded] = []

    def describe() -> dict[str, Any]:
        loaded.append(load_timm(name, file))
        return {"weights_sha256": loaded[0].weights_sha256, "preprocessing": loaded[0].preprocessing.to_dict()}

    if file is None:
        known = describe()
    elif not file.is_file():
        raise UserError(f"{word}: the file {file} does not exist; check the path.")
    else:
        known = _remembered(cache, f"timm {name} {file.resolve()}", _stamp(file), describe)
    return Network(
        name=word,
        source="baseline",
        architecture=name,
        weights_sha256=known["weights_sha256"],
        preprocessing=Preprocessing.from_dict(known["preprocessing"]),
        load=lambda: (loaded[0] if loaded else load_timm(name, file)).model,
        pretrained_here=False,
    )


# ------------------------------------------------------------------------------------------ runs and checkpoints


def _latest_and_best(run: RunFolder) -> list[Path]:
    finished = run.whole_checkpoints()
    if not finished:
        raise UserError(f"the run {run.path} has no finished checkpoint yet; wait for its first one.")
    best = run.selected()
    return [finished[-1]] if best is None or best == finished[-1].resolve() else [finished[-1], best]


def _from_path(path: Path, cache: Path) -> Network:
    if not path.exists():
        raise UserError(f"cannot evaluate {path}: it does not exist; check the path.")
    refuse_half_written(path)
    found: list[LoadedBackbone] = []

    def describe() -> dict[str, Any]:
        found.append(load_backbone(path))
        return {
            "source": found[0].source,
            "architecture": found[0].architecture,
            "weights_sha256": found[0].weights_sha256,
            "preprocessing": found[0].preprocessing.to_dict(),
            "step": found[0].metadata.get("step"),
            "certificate": found[0].certificate,
        }

    known = _remembered(cache, str(path.resolve()), _stamp(path), describe)
    return Network(
        # A link such as RUN/best stands for the checkpoint that it points at.
        name=path.resolve().name if path.is_dir() else path.stem,
        source=known["source"],
        architecture=known["architecture"],
        weights_sha256=known["weights_sha256"],
        preprocessing=Preprocessing.from_dict(known["preprocessing"]),
        load=lambda: (found[0] if found else load_backbone(path)).model,
        step=known["step"],
        path=path,
        certificate=None
        if known["certificate"] is None
        else parse_document(Certificate, known["certificate"], path, "a leakage certificate"),
    )


def _remembered(cache: Path, what: str, stamp: list[Any], describe: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `describe` found in weights when their files were as they are now: to find cached features, no more."""
    memory = cache / "weights" / f"{hashlib.sha256(what.encode()).hexdigest()[:32]}.json"
    known = read_json(memory) if memory.is_file() else {}
    if known.get("stamp") != stamp or known.get("format") != _FORMAT:
        known = {"format": _FORMAT, "stamp": stamp, **describe()}
        write_json(memory, known)
    return dict(known)


def _stamp(path: Path) -> list[list[Any]]:
    """Names, sizes and times of a file or of a folder's files: when these are the same, so are the weights."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    stamps = []
    for file in files:
        status = file.stat()
        stamps.append([file.relative_to(path).as_posix(), status.st_size, status.st_mtime_ns])
    return stamps
