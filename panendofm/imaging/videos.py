"""Opening videos of others: only kinds of files that hold a video themselves, and clocks that may start anew."""

from __future__ import annotations

from pathlib import Path

import av
from av.container import InputContainer

# FFmpeg's names of what .mp4, .avi, .mpg, .mov, .mkv, .wmv and .webm files are. Playlists (ffconcat, HLS) are not among
# them: such a text names other files, here or on the network, under any name that its author likes.
_FORMATS = ("mov", "mp4", "matroska", "webm", "avi", "mpeg", "mpegvideo", "mpegts", "asf", "flv", "ogg", "mxf", "dv")
_OPTIONS = {"format_whitelist": ",".join(_FORMATS), "protocol_whitelist": "file"}
_BACK_SECONDS = 0.5  # frames are stored out of order by less


def open_video(path: Path) -> InputContainer:
    """Raises what `av.open` raises."""
    container: InputContainer = av.open(str(path), metadata_errors="replace", options=_OPTIONS)
    return container


class SteadyClock:
    """Times of a stream whose clock may start anew, as where two recordings were joined: they go on from the last."""

    def __init__(self, ticks_per_second: float = 1.0) -> None:
        self._back = _BACK_SECONDS * ticks_per_second
        self._latest: float | None = None
        self._step = 0.0
        self._shift = 0.0

    def shift(self, time: float) -> float:
        """What to add to this time, which is the next in the file."""
        steady = time + self._shift
        if self._latest is not None:
            if steady < self._latest - self._back:
                self._shift += self._latest + self._step - steady
                steady = time + self._shift
            elif self._latest < steady < self._latest + self._back:
                self._step = steady - self._latest
        self._latest = steady if self._latest is None else max(self._latest, steady)
        return self._shift
