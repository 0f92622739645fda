"""Copies of videos at other speeds and with boxes drawn on them, as real encoded files; strangers stay."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from data_pipeline import PipelineConfig, shard
from data_pipeline.screening.alignment import aligned_share
from data_pipeline.screening.config import DuplicatesConfig
from panendofm.records.shards import PrivateFolder
from panendofm.runtime.config import load_config
from panendofm.synthetic.media import write_video

FPS = 12
SPEEDS = ("0.5", "1.3", "1.6", "2")


def procedure(seed: int, seconds: int = 16) -> Iterator[NDArray[np.uint8]]:
    """A view through a round scope [144, 176, 3] that moves so fast over a wall that half a second changes it much."""
    random = np.random.default_rng(seed)
    wall = sum(
        cv2.resize(
            random.uniform(-1, 1, (cells, cells)).astype(np.float32), (1200, 1200), interpolation=cv2.INTER_CUBIC
        )
        * size
        for cells, size in ((24, 50), (60, 35), (150, 15))
    )
    wall = np.clip(wall[..., None] * (1.0, 0.8, 0.7) + (150, 95, 80), 30, 230).astype(np.uint8)
    for _ in range(400):  # vessels
        points = np.cumsum(random.normal(0, 12, (6, 2)), axis=0) + random.uniform(0, 1200, 2)
        cv2.polylines(wall, [points.round().astype(np.int32)], False, (120, 40, 40), 1)
    scope = cv2.circle(np.zeros((144, 176), np.uint8), (88, 72), 70, 255, -1)
    turns = random.uniform(0.5, 1.0, 4)
    for t in np.arange(seconds * FPS) / FPS:
        x = 500 + 420 * np.sin(0.13 * turns[0] * t + 6 * turns[1])
        y = 500 + 420 * np.sin(0.19 * turns[2] * t + 6 * turns[3])
        view = cv2.getRectSubPix(wall, (176, 144), (float(x), float(y)))
        yield cv2.bitwise_and(view, view, mask=scope)


def with_boxes(frames: Iterator[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """What a detector draws."""
    for number, frame in enumerate(frames):
        left, top = int(60 + 20 * np.sin(number / 9)), int(50 + 15 * np.cos(number / 13))
        frame = cv2.rectangle(frame.copy(), (left, top), (left + 45, top + 38), (0, 255, 0), 2)
        yield cv2.putText(frame, f"polyp 0.{70 + number % 29}", (left, top - 4), 0, 0.35, (0, 255, 0), 1)


def test_a_video_at_another_speed_with_boxes_is_a_copy_and_a_stranger_is_not(tmp_path: Path, ray_cluster: None) -> None:
    for name, seed in {"a": 1, "b": 2, "c": 3}.items():
        write_video(tmp_path / f"data/{name}.mp4", procedure(seed), "h264", Fraction(FPS), 24)
    for speed in SPEEDS:
        path = tmp_path / f"data/copy_of_a_at_{speed}.mp4"
        write_video(path, with_boxes(procedure(1)), "h264", FPS * Fraction(speed), 24)
    config = load_config(
        PipelineConfig,
        None,
        [
            f"data_root={tmp_path}",
            f"out={tmp_path / 'shards'}",
            "corpora={mine: {adapter: folder, root: data, license: CC0}}",
            "screen.text={inside: keep, reader: none}",
            "ray.workers=2",
        ],
    )
    shard(config)
    rows = pq.read_table(PrivateFolder(config.private_dir).sources).to_pylist()
    name_of = {row["source"]: row["path"] for row in rows}
    stay = {row["path"] for row in rows if row["copy_of"] is None}
    # Of all that shows procedure a one is left: the longest, which is the slowest.
    assert stay == {"copy_of_a_at_0.5.mp4", "b.mp4", "c.mp4"}
    assert all("a" in name_of[row["copy_of"]] for row in rows if row["copy_of"])


def test_frames_that_are_merely_alike_are_no_copy() -> None:
    """Two videos of a common still part (an overlay, a border): near one another everywhere, and along no line."""
    random = np.random.default_rng(5)
    common = random.random(256) < 0.5
    free = random.permutation(256)[:110]  # bits that the overlay leaves to the image

    def video(frames: int) -> NDArray[np.uint8]:
        bits = np.repeat(common[None], frames, axis=0)
        bits[:, free] = random.random((frames, len(free))) < 0.5
        return np.packbits(bits, axis=1)

    one, other = video(40), video(50)
    times, other_times = np.arange(40.0), np.arange(50.0)
    bits = DuplicatesConfig().aligned_bits
    assert aligned_share(one, times, other, other_times, bits) == 0
    # The same frames at 0.8 of the speed, each 70 bits from its original, are.
    shown = one[np.clip((0.8 * other_times).round().astype(int), 0, 39)]
    spoiled = shown ^ np.packbits(random.random((50, 256)) < 40 / 256, axis=1)
    assert aligned_share(one, times, spoiled, other_times, bits) > 0.9
