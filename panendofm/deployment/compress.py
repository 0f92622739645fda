"""A copy of a release with fp16 and int8 graphs; its card says what they cost in kNN and mask IoU."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from panendofm.backbone import ImageList, LoadedBackbone, evenly, load_backbone
from panendofm.backbone.release import verify_release, write_graph
from panendofm.deployment.config import FP16, FP32, INT8, CompressConfig
from panendofm.deployment.graph import Graph
from panendofm.deployment.kept import kept_metrics
from panendofm.deployment.quantize import write_int8
from panendofm.records.release import WEIGHTS_FILES, ReleaseFolder, ReleaseInfo, SmallerGraph
from panendofm.reports import Table, markdown, render_text
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, write_checksums, write_text

_BATCH = 8
_LIMITS = "\n## Limits\n"


def compress_release(source: Path, config: CompressConfig) -> ReleaseInfo:
    """Write `config.out` whole or not at all, and return its description. The signature stays behind."""
    verify_release(source)
    before = ReleaseFolder(source)
    release = before.read()
    there = [kind for kind in config.formats if kind in release.weights]
    if FP32 not in release.weights or there:
        raise UserError(
            f"{source}: it has {there[0]} already; name a release without it."
            if there
            else f"{source}: smaller graphs are compared with its onnx graph, and it has none; export it with onnx."
        )
    loaded = load_backbone(source)
    batches = _calibration(loaded, config) if INT8 in config.formats else []
    with atomic_directory(config.out) as path:
        folder = ReleaseFolder(path)
        for name in before.read_checksums():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, path / name)
        smaller, checked = {}, dict(release.checked)
        for kind in config.formats:
            layers_kept = _WRITERS[kind](loaded, batches, config, folder.weights(kind))
            checked[kind] = _difference(loaded, folder.weights(kind), release)
            smaller[kind] = _costs(folder, kind, release, config, batches if kind == INT8 else [], layers_kept)
        weights = release.weights | {kind: WEIGHTS_FILES[kind] for kind in config.formats}
        release = replace(release, weights=weights, checked=checked, smaller={**release.smaller, **smaller})
        folder.write(release)
        write_text(folder.model_card, with_section(folder.model_card.read_text(encoding="utf-8"), release))
        names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        write_checksums(path, [name for name in names if name != folder.checksums.name], folder.checksums.name)
    say(f"release {config.out}: {', '.join(config.formats)} beside {', '.join(before.read().weights)}")
    return release


def _write_fp16(loaded: LoadedBackbone, batches: list[Tensor], config: CompressConfig, path: Path) -> list[str]:
    write_graph(copy.deepcopy(loaded.model).half(), loaded.preprocessing.crop_px, path)
    return []


def _write_int8(loaded: LoadedBackbone, batches: list[Tensor], config: CompressConfig, path: Path) -> list[str]:
    return write_int8(loaded.model, batches, config.outlier, path)


# Each writes a graph and says which layers stayed in float32 on purpose.
_WRITERS: dict[str, Callable[[LoadedBackbone, list[Tensor], CompressConfig, Path], list[str]]] = {
    FP16: _write_fp16,
    INT8: _write_int8,
}


def _calibration(loaded: LoadedBackbone, config: CompressConfig) -> list[Tensor]:
    images = evenly(ImageList([Path(config.calibration or "")]), config.calibration_images)
    prepared = [loaded.preprocessing(images[row]) for row in range(len(images))]
    return list(torch.split(torch.stack(prepared), _BATCH))


def _difference(loaded: LoadedBackbone, path: Path, release: ReleaseInfo) -> dict[str, float]:
    """Largest difference of cls tokens over the largest value, on images of noise: does the graph load and compute?"""
    side = loaded.preprocessing.crop_px
    images = torch.randn(2, 3, side, side, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        ours = loaded.model(images).cls
    theirs = Graph(path, int(release.vit["patch_px"]))(images)
    difference = float((ours - theirs).abs().max() / ours.abs().max())
    if not np.isfinite(difference):
        raise UserError(f"{path.name} gives features that are not finite: values of this network need more bits.")
    return {f"at_{side}px": difference}


def _costs(
    folder: ReleaseFolder,
    kind: str,
    release: ReleaseInfo,
    config: CompressConfig,
    batches: list[Tensor],
    layers_kept: list[str],
) -> SmallerGraph:
    megabytes = [folder.weights(name).stat().st_size / 2**20 for name in (kind, FP32)]
    kept = kept_metrics(folder, kind, release, config)
    for metric in kept:
        say(
            f"{kind}: {metric.metric} on {metric.data} {metric.before:.3f} → {metric.after:.3f}, "
            f"{100 * metric.difference:+.1f} points ({100 * metric.low:+.1f} to {100 * metric.high:+.1f})"
        )
    calibrated = sum(len(batch) for batch in batches) or None
    return SmallerGraph(megabytes[0], megabytes[1], calibrated, layers_kept, kept)


def with_section(card: str, release: ReleaseInfo) -> str:
    """The model card with what the graphs cost, before its limits."""
    place = card.find(_LIMITS)
    if place < 0:
        raise UserError(f"the card of the release {release.name} has no section '{_LIMITS.strip()}'; export it again.")
    return card[:place] + "\n" + smaller_section(release) + card[place:]


def smaller_section(release: ReleaseInfo) -> str:
    rows = []
    for kind, graph in release.smaller.items():
        size = f"{graph.size_mb:.1f} of {graph.size_mb_before:.1f} MB"
        for metric in graph.kept:
            change = f"{100 * metric.difference:+.1f} ({100 * metric.low:+.1f} to {100 * metric.high:+.1f})"
            rows.append([kind, size, f"{metric.metric}, {metric.data}", f"{metric.images:,}", f"{metric.before:.3f}",
                         f"{metric.after:.3f}", change])  # fmt: skip
        if not graph.kept:
            rows.append([kind, size, "not measured", "", "", "", ""])
    columns = ["graph", "size", "metric", "images", "onnx", "this graph", "change in points"]
    tables = [_Shown(kind, WEIGHTS_FILES[kind], graph) for kind, graph in release.smaller.items()]
    return render_text(
        "panendofm.deployment",
        "smaller.md",
        table=markdown(Table(columns, rows)),
        graphs=tables,
        confidence=", ".join(sorted({f"{100 * m.confidence:g}%" for g in release.smaller.values() for m in g.kept})),
    )


@dataclass(frozen=True)
class _Shown:
    kind: str
    file: str
    graph: SmallerGraph
