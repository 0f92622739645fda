"""Concept look-up: the frames of a curated set that are most like some example images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_pipeline.curate.config import CurateConfig, LookupConfig
from data_pipeline.curate.features import Frames, frame_features, unit_rows
from data_pipeline.curate.mapped import Features
from data_pipeline.reporting.examples import EXAMPLE_PX
from panendofm.backbone import extract_features
from panendofm.backbone.networks import find_network
from panendofm.imaging.images import open_image, thumbnail
from panendofm.records.curation import CurationFolder
from panendofm.reports import PageImage, render_page
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text


def look_up(shards: Path, examples: Sequence[Path], wanted: LookupConfig) -> list[str]:
    """The keys of the frames that are most like any of the examples, best first.

    Writes a CSV of key and similarity, and a page with the images beside it. The features are those of the curation,
    which lies beside the shards unless its folder is given.
    """
    out = Path(wanted.out)
    folder = CurateConfig().folder(shards) if wanted.curation is None else CurationFolder(Path(wanted.curation))
    if not folder.table.is_file():
        raise UserError(f"{folder.path} holds no curation; run 'python -m data_pipeline curate {shards}' first.")
    config = load_config(CurateConfig, folder.config)
    frames = frame_features(shards, config.network, folder.features, config.ray)
    network = find_network(config.network, folder.features)
    images = [open_image(path) for path in examples]
    of_examples = unit_rows(extract_features(network.load(), images, network.preprocessing).numpy())
    rows, similarity = most_similar(frames.features, of_examples, wanted.most)
    keys = [str(frames.keys[row]) for row in rows]
    table = [(key, f"{value:.6f}") for key, value in zip(keys, similarity.tolist(), strict=True)]
    write_text(out, csv_text(("key", "similarity"), table))
    write_text(out.with_suffix(".html"), _page(frames, examples, rows, similarity))
    say(f"the {len(keys)} frames that are most like the examples: {out}, with images in {out.with_suffix('.html')}")
    return keys


def most_similar(features: Features, examples: NDArray[np.float32], most: int) -> tuple[list[int], NDArray[np.float32]]:
    """Rows of unit features [N, D] by their largest similarity to any example [E, D]; of equals the earlier first."""
    import faiss

    best: dict[int, float] = {}
    for begin, some in features.chunks():
        index = faiss.IndexFlatIP(features.width)
        index.add(some)
        similarity, rows = index.search(examples, min(most, len(some)))  # [E, most]
        for row, value in zip((begin + rows.ravel()).tolist(), similarity.ravel().tolist(), strict=True):
            best[row] = max(value, best.get(row, -2.0))
        best = {row: best[row] for row in _first(best, most)}
    found = _first(best, most)
    return found, np.array([best[row] for row in found], np.float32)


def _first(best: dict[int, float], most: int) -> list[int]:
    return sorted(best, key=lambda row: (-best[row], row))[:most]


def _page(frames: Frames, examples: Sequence[Path], rows: Sequence[int], similarity: NDArray[np.float32]) -> str:
    given = [
        PageImage(thumbnail(open_image(path), EXAMPLE_PX), f"example {number}")
        for number, path in enumerate(examples, 1)
    ]
    found = [
        PageImage(thumbnail(frames.image(row), EXAMPLE_PX), f"{number}: {value:.3f}")
        for number, (row, value) in enumerate(zip(rows, similarity.tolist(), strict=True), 1)
    ]
    return render_page("data_pipeline", "lookup.html", title="More like these", examples=given, found=found)
