"""What phase one leaves, made up: parts of frames whose bytes are random, the same for the same numbers."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from data_pipeline.reporting.examples import EXAMPLE_SCHEMA
from data_pipeline.screening.screen_sources import (
    PART_EXAMPLES,
    PART_FRAMES,
    PART_FRAMES_BYTES,
    PART_PAINTED,
    PART_SCHEMA,
)
from panendofm.runtime.files import write_json


def write_parts(
    folder: Path, frames: int, frames_per_part: int, jpeg_bytes: int, with_bytes: bool = True
) -> list[Path]:
    """Parts of one video each. Without their bytes they serve the driver, which never reads them."""
    parts = []
    for number, first in enumerate(range(0, frames, frames_per_part)):
        part = folder / f"part-{number:06d}"
        part.mkdir(parents=True)
        _write_part(part, number, first, min(frames_per_part, frames - first), jpeg_bytes, with_bytes)
        parts.append(part)
    return parts


def _write_part(part: Path, number: int, first: int, frames: int, jpeg_bytes: int, with_bytes: bool) -> None:
    random = np.random.default_rng(number)
    sizes = random.integers(jpeg_bytes // 2, jpeg_bytes * 3 // 2, frames)
    offsets = np.cumsum(sizes) - sizes
    hashes = random.integers(0, 256, (frames, 32), np.uint8)
    source = _hex(f"source {number}")
    rows = [
        _row(first + i, number, source, hashes[i].tobytes().hex(), int(offsets[i]), int(sizes[i]))
        for i in range(frames)
    ]
    pq.write_table(pa.Table.from_pylist(rows, PART_SCHEMA), part / PART_FRAMES)
    for name in (PART_EXAMPLES, PART_PAINTED):
        pq.write_table(EXAMPLE_SCHEMA.empty_table(), part / name)
    told = {"path": f"video{number}", "corpus": "generated", "source": source, "seen": frames, "compared": 0}
    told |= {"kept": frames, "dropped": {}, "problems": {}, "audit": {}, "text_moves": False, "leaks": []}
    write_json(part / "sources.json", [told])
    if with_bytes:
        (part / PART_FRAMES_BYTES).write_bytes(random.bytes(int(sizes.sum())))


def _row(frame: int, number: int, source: str, image_hash: str, offset: int, size: int) -> dict[str, Any]:
    return {
        "key": _hex(f"frame {frame}"),
        "corpus": "generated",
        "component": None,
        "source": source,
        "video": _hex(f"video {number}"),
        "patient": None if number % 3 else _hex(f"patient {number // 6}"),
        "organ": "colon",
        "licence": "made up",
        "frame": frame,
        "seconds": frame / 4,
        "original_width": 640,
        "original_height": 512,
        "crop": [10, 12, 500, 480],
        "shape": "octagon",
        "width": 490,
        "height": 468,
        "hash": image_hash,
        "brightness": 90.0 + frame % 40,
        "washed_out": 0.01,
        "sharpness": 12.5,
        "text_filled": 0.0,
        "sha256": hashlib.sha256(f"{frame}".encode()).hexdigest(),
        "single": False,
        "offset": offset,
        "size": size,
    }


def _hex(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]
