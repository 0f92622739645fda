"""Which frames of a video are wanted, and who decodes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from data_pipeline.decode.config import DecodeConfig

# Times are rounded in containers: a frame a tenth of a millisecond early is on time.
EARLY_SECONDS = 1e-4


@dataclass(frozen=True)
class Frame:
    """One decoded frame."""

    index: int  # position in the video, from 0
    seconds: float
    rgb: NDArray[np.uint8]  # [H, W, 3]


class DecodeError(Exception):
    """The video is broken from here on. What was yielded before is good."""


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    """The wanted frames in order. A broken video yields what decodes and then raises `DecodeError` with the reason."""
    if path.stat().st_size == 0:
        raise DecodeError("the file is empty")
    from data_pipeline.decode import with_pyav

    if config.backend == "pyav":
        yield from with_pyav.frames_of(path, config)
        return
    from data_pipeline.decode import with_torchcodec

    with_pyav.refuse_other_formats(path)
    yield from with_torchcodec.frames_of(path, config)


def probe_frames(path: Path, count: int) -> list[NDArray[np.uint8]]:
    """A few frames [H, W, 3] spread over the video, decoded from the key frames nearest; fewer when it is broken."""
    from data_pipeline.decode import with_pyav

    return with_pyav.probe_frames(path, count)


class Picker:
    """Says which frames to take, from their times and positions alone."""

    def __init__(self, config: DecodeConfig) -> None:
        self._by_count = config.sampling == "every"
        self._step = float(config.every_frames) if self._by_count else 1.0 / config.fps
        self._taken = 0

    @property
    def target(self) -> float:
        """The time (or, for sampling=every, the position) from which the next frame is taken."""
        return self._taken * self._step - EARLY_SECONDS

    def wants(self, index: int, seconds: float) -> bool:
        return (index if self._by_count else seconds) >= self.target

    def take(self, index: int, seconds: float) -> None:
        """Note that this frame was taken; targets that it has passed are dropped."""
        position = index if self._by_count else seconds
        self._taken = max(self._taken + 1, int((position + EARLY_SECONDS) / self._step) + 1)
