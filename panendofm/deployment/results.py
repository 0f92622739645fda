"""What `panendofm benchmark` writes: speed by format, batch and size, or of a video from file to finding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Cell:
    """A format at one batch size and image side: the median over repeats."""

    format: str
    batch_size: int
    side_px: int
    images_per_second: float
    median_ms: float  # of a batch
    p95_ms: float
    p99_ms: float
    cpu_ms_per_image: float  # of all threads; it does not grow when others use the machine
    speedup: float  # images/s over those of the first format in the same repeat
    peak_memory_mb: float  # of a process that did this format alone, libraries included


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    threads: int  # of the network
    versions: dict[str, str]


@dataclass(frozen=True)
class BenchmarkResults:
    release: str
    architecture: str
    weights_sha256: str
    machine: Machine
    repeats: int
    cells: list[Cell]
    kind: Literal["benchmark"] = "benchmark"
    format: Literal[1] = 1


@dataclass(frozen=True)
class VideoCell:
    """A format on the frames of one video, one frame at a time."""

    format: str
    frames: int
    frames_per_second: float
    median_ms: float
    p95_ms: float
    mean_ms_of: dict[str, float]  # decoding, cropping, preparing, network, head
    keeps_up_with: dict[str, bool]  # frames/s → whether the mean time is short enough
    cpu_ms_per_frame: float
    speedup: float  # over the first format


@dataclass(frozen=True)
class VideoSpeed:
    release: str
    architecture: str
    weights_sha256: str
    machine: Machine
    width: int
    height: int
    video_fps: float | None
    head: str | None
    cells: list[VideoCell] = field(default_factory=list)
    kind: Literal["video"] = "video"
    format: Literal[1] = 1
