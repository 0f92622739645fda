"""The audit: a few finished frames of every source are read as they stand in the shards, one also as it came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import TextConfig
from panendofm.imaging.frame_filters.text import TextFinding, read_text

Image = NDArray[np.uint8]  # [H, W, 3] RGB


def read_jpeg(jpeg: bytes, config: TextConfig) -> TextFinding:
    """What can be read in a frame after its compression."""
    return read_text(np.asarray(simplejpeg.decode_jpeg(jpeg)), config.min_confidence, config.min_characters)


class Audit:
    """Chooses some of a source's kept frames and reads them when all are known.

    Those with the lowest hashes are chosen: a fair sample of the source, and the same whoever does the work.
    """

    def __init__(self, frames: int, config: TextConfig) -> None:
        self._frames = frames
        self._config = config
        self._chosen: list[tuple[str, bytes]] = []
        self._whole: Image | None = None  # as it came: the frame with the lowest hash

    def offer(self, order: str, jpeg: bytes, whole: Callable[[], Image]) -> None:
        """A kept frame; `whole` gives it unscreened."""
        if not self._frames:
            return
        if not self._chosen or order < self._chosen[0][0]:
            self._whole = whole()
        self._chosen = sorted([*self._chosen, (order, jpeg)])[: self._frames]

    def read(self) -> tuple[Counter[str], list[bytes]]:
        """Frames read, with text, and with something private, before and after; and the finished ones with text."""
        counts: Counter[str] = Counter()
        left = []
        for _, jpeg in self._chosen:
            after = read_jpeg(jpeg, self._config)
            counts.update(after_read=1, after_text=int(after.found), after_private=int(after.private))
            if after.found:
                left.append(jpeg)
        if self._whole is not None:
            before = read_text(self._whole, self._config.min_confidence, self._config.min_characters)
            counts.update(before_read=1, before_text=int(before.found), before_private=int(before.private))
        return counts, left
