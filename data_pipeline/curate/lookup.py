"""Concept look-up: the frames of a curated set that are most like some example pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_pipeline.curate.config import CurateConfig
from data_pipeline.curate.features import Frames, frame_features, unit_rows
from data_pipeline.curate.mapped import Features
from data_pipeline.reporting.examples import thumbnail
from panendofm.backbone import extract_features
from panendofm.backbone.networks import find_network
from panendofm.imaging.images import open_image
from panendofm.records.curation import CurationFolder
from panendofm.reports import pages
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text

_STYLE = "figure { display: inline-block; margin: 0.25rem; } img { height: 7rem; }"


def look_up(shards: Path, examples: Sequence[Path], out: Path, most: int, curation: Path | None = None) -> list[str]:
    """The keys of the `most` frames that are most like any of the examples, best first.

    Writes a CSV of key and similarity to `out`, and a page with the pictures beside it. The features are those of the
    curation, which lies beside the shards unless its folder is given.
    """
    if most < 1 or out.suffix != ".csv":
        raise UserError(f"{out}: the name of the list must end in .csv, and --most must be 1 or more.")
    folder = CurationFolder(curation) if curation is not None else CurateConfig().folder(shards)
    if not folder.table.is_file():
        raise UserError(f"{folder.path} holds no curation; run 'python -m data_pipeline curate {shards}' first.")
    config = load_config(CurateConfig, folder.config)
    frames = frame_features(shards, config.network, folder.features, config.ray)
    network = find_network(config.network, folder.features)
    pictures = [open_image(path) for path in examples]
    of_examples = unit_rows(extract_features(network.load(), pictures, network.preprocessing).numpy())
    rows, similarity = most_similar(frames.features, of_examples, most)
    keys = [str(frames.keys[row]) for row in rows]
    table = [(key, f"{value:.6f}") for key, value in zip(keys, similarity.tolist(), strict=True)]
    write_text(out, csv_text(("key", "similarity"), table))
    write_text(out.with_suffix(".html"), _page(frames, examples, rows, similarity))
    say(f"the {len(keys)} frames that are most like the examples: {out}, with pictures in {out.with_suffix('.html')}")
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
    def shown(picture: NDArray[np.uint8], name: str, said: str) -> str:
        return f"<figure>{pages.image(thumbnail(picture), name, 'jpeg')}<figcaption>{said}</figcaption></figure>"

    given = "".join(
        shown(np.asarray(open_image(path)), f"example {n}", f"example {n}") for n, path in enumerate(examples, 1)
    )
    found = "".join(
        shown(np.asarray(frames.picture(row)), str(frames.keys[row]), f"{number}: {value:.3f}")
        for number, (row, value) in enumerate(zip(rows, similarity.tolist(), strict=True), 1)
    )
    heading = (
        f"<h1>The {len(rows):,} frames most like these</h1><p>Below each frame its largest cosine similarity to any of "
        "the examples; 1 is the same picture. Frames are named in the list beside this page, in the same order.</p>"
    )
    sections = pages.section("Examples", given) + pages.section("Most like them", found)
    return pages.page("More like these", heading + sections, _STYLE)
