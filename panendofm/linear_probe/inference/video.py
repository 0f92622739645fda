"""Frames of a video at a chosen rate, decoded one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import av
from PIL import Image

from panendofm.imaging.images import is_image, open_image
from panendofm.imaging.videos import SteadyClock, open_video
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class VideoFrame:
    number: int  # in the video
    seconds: float
    image: Image.Image


def frames_at(path: Path, fps: float) -> Iterator[VideoFrame]:
    """The first frame at or after each 1/fps seconds; of a folder, its images in order, taken as `fps` a second."""
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if is_image(p))
        if not files:
            raise UserError(f"{path}: there are no images in this folder; name a video or a folder of frames.")
        yield from (VideoFrame(i, i / fps, open_image(file)) for i, file in enumerate(files))
        return
    if not path.is_file():
        raise UserError(f"cannot read the video {path}: it does not exist; check the path.")
    wanted = 0
    number = -1
    try:
        with open_video(path) as container:
            if not container.streams.video:
                raise UserError(f"cannot read the video {path}: there is no video track in it.")
            start: float | None = None
            clock = SteadyClock()
            rate = container.streams.video[0].average_rate
            for number, frame in enumerate(container.decode(video=0)):
                at = frame.time if frame.time is not None else number / float(rate or 25)
                at += clock.shift(at)
                start = at if start is None else start
                seconds = at - start
                # A hair early is on time: times of frames are rounded to the container's ticks.
                if seconds + 1e-3 >= wanted / fps:
                    yield VideoFrame(number, seconds, Image.fromarray(frame.to_ndarray(format="rgb24")))
                    wanted = int((seconds + 1e-3) * fps) + 1
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UserError(f"cannot read the video {path}: it is damaged or of an unknown kind ({error}).") from error
    if number < 0:
        raise UserError(f"cannot read the video {path}: no frame can be decoded.")
