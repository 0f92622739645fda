"""What sharding will cost: time, disk and memory by number of frames, from rates measured here or stated below.

docs/explanation/scale.md says where each stated rate comes from.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import av
import cv2
import numpy as np

from data_pipeline.config import CorpusConfig, PipelineConfig
from data_pipeline.output.shuffle import RUN_BYTES
from data_pipeline.planning import plan
from data_pipeline.screening.screen_sources import process_unit
from panendofm.imaging.leakage import FEW_VECTORS, WINDOWS, build_guard

# `python -m benchmarks.scale sharding`: a core's seconds for a frame on its way through the shuffle.
SHUFFLE_SECONDS = 0.17e-3
# `python -m benchmarks.scale driver`
DRIVER_BYTES, DRIVER_BASE_BYTES = 315, 100e6
# `python -m benchmarks.scale guard`: a core's seconds for a frame and a guarded vector, compared all or by the index.
_EXACT_SECONDS, _INDEXED_SECONDS = 107e-9, 14e-9
# `python -m benchmarks.scale start`: the map that the ranks of a node share.
INDEX_BYTES = 48
# The text screens look at a video once, however long it is (docs/results/data-pipeline.md).
TEXT_SECONDS_A_VIDEO = 2.0
# A frame of 512 pixels at JPEG quality 90, with its JSON and tar headers.
FRAME_BYTES = 62_000
# Every byte is written to a part, a run and a shard, and read from the first two and for the checksums.
_TIMES_ON_DISK, _DISK_PASSES = 3, 6
_SECONDS_OF_VIDEO, _FPS, _WIDTH, _HEIGHT = 6, 25, 1280, 720


@dataclass(frozen=True)
class Conditions:
    """What is planned with."""

    cores: int
    memory_gb: float  # of the machine that the driver runs on
    disk_gb_per_second: float
    kept_share: float  # of the frames that are looked at
    frames_per_second: float  # that are looked at in a second of video
    video_minutes: float = 15.0  # of one video
    guarded_images: int = 0
    driver_cores: int = 1  # of that machine


@dataclass(frozen=True)
class ShardingCost:
    """For a number of frames in the shards."""

    frames: int
    video_hours: float
    screening_hours: float  # on all cores
    shuffle_hours: float  # on all cores
    disk_hours: float
    shards_gb: float
    peak_disk_gb: float
    driver_gb: float
    worker_gb: float  # of one worker
    index_gb: float  # of a node that trains, shared by its ranks
    bottleneck: str

    @property
    def hours(self) -> float:
        """Screening reads and writes little; the shuffle waits for the disk or for the cores."""
        return self.screening_hours + max(self.shuffle_hours, self.disk_hours)


def cost_of(frames: int, seconds_a_frame: float, given: Conditions) -> ShardingCost:
    """`seconds_a_frame`: of one core, to decode and screen one frame that is looked at."""
    looked_at = frames / given.kept_share
    seconds = looked_at / given.frames_per_second
    vectors = given.guarded_images * len(WINDOWS)
    guard = vectors * (_EXACT_SECONDS if vectors <= FEW_VECTORS else _INDEXED_SECONDS)
    text = seconds / 60 / given.video_minutes * TEXT_SECONDS_A_VIDEO
    screening = (looked_at * (seconds_a_frame + guard) + text) / given.cores / 3600
    shuffle = frames * SHUFFLE_SECONDS / given.cores / 3600
    size = frames * FRAME_BYTES
    disk = _DISK_PASSES * size / (given.disk_gb_per_second * 1e9) / 3600
    driver = (DRIVER_BASE_BYTES + frames * DRIVER_BYTES) / 1e9
    longest = {"cores (screening)": screening, "cores (shuffle)": shuffle, "disk (shuffle)": disk}
    bottleneck = max(longest, key=longest.__getitem__)
    return ShardingCost(
        frames=frames,
        video_hours=seconds / 3600,
        screening_hours=screening,
        shuffle_hours=shuffle,
        disk_hours=disk,
        shards_gb=size / 1e9,
        peak_disk_gb=_TIMES_ON_DISK * size / 1e9,
        driver_gb=driver,
        worker_gb=(2 * RUN_BYTES + 300e6) / 1e9,
        index_gb=frames * INDEX_BYTES / 1e9,
        bottleneck=bottleneck if driver < given.memory_gb else f"the driver's memory ({driver:.0f} GB)",
    )


def frames_of_hours(video_hours: float, given: Conditions) -> int:
    return round(video_hours * 3600 * given.frames_per_second * given.kept_share)


def measured_seconds_a_frame(frames_per_second: float) -> float:
    """Of one core, here and now: decoding and screening of a 720p video, without text screens and guard."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "videos"
        folder.mkdir()
        _write_video(folder / "a.mp4")
        config = PipelineConfig(data_root=name, out=str(Path(name) / "out"))
        config.corpora = {"videos": CorpusConfig("folder", folder.name, license="none")}
        config.decode.fps = frames_per_second
        config.screen.text.inside = "keep"
        config.screen.text.reader = "none"
        (unit,) = plan(config).units
        began = time.process_time()
        seen = process_unit(unit, config, build_guard([]), b"k" * 32, Path(name) / "part")
        return (time.process_time() - began) / seen


def _write_video(path: Path) -> None:
    """A textured scene in a round field of view that drifts."""
    random = np.random.default_rng(0)
    coarse = random.normal(0, 40, (36, 64, 3))
    texture = cv2.resize(coarse, (2 * _WIDTH, 2 * _HEIGHT), interpolation=cv2.INTER_CUBIC) + np.array([150, 90, 75])
    texture = np.clip(texture + random.normal(0, 6, texture.shape), 0, 255).astype(np.uint8)
    view = np.zeros((_HEIGHT, _WIDTH), np.uint8)
    cv2.circle(view, (_WIDTH // 2, _HEIGHT // 2), 350, 255, -1)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=_FPS)
        stream.width = _WIDTH
        stream.height = _HEIGHT
        stream.pix_fmt = "yuv420p"
        stream.codec_context.options = {"preset": "ultrafast", "x264-params": "keyint=50:min-keyint=50:scenecut=0"}
        for i in range(_SECONDS_OF_VIDEO * _FPS):
            x, y = int(300 + 300 * np.sin(i / 70)), int(200 + 200 * np.cos(i / 50))
            frame = np.ascontiguousarray(texture[y : y + _HEIGHT, x : x + _WIDTH])
            image = av.VideoFrame.from_ndarray(cv2.bitwise_and(frame, frame, mask=view), format="rgb24")
            container.mux(stream.encode(image))
        container.mux(stream.encode())
