"""Encoded files, byte for byte the same every time: one thread, no time stamps, no version strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from av.codec.context import Flags

from panendofm.synthetic.scene.devices import Pixels

ENCODERS = {"h264": ("libx264", "yuv420p"), "mjpeg": ("mjpeg", "yuvj420p"), "mpeg4": ("mpeg4", "yuv420p")}
# Time base of a video with a variable frame rate.
MILLISECOND = Fraction(1, 1000)


def write_video(
    path: Path,
    frames: Iterable[Pixels],
    codec: str,
    fps: Fraction,
    keyframe_interval: int,
    times_ms: list[int] | None = None,
    index_first: bool = True,
) -> int:
    """Encode RGB frames; returns how many. `times_ms` gives each frame's time for a variable frame rate."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"fflags": "+bitexact"}
    if path.suffix == ".mp4" and index_first:
        options["movflags"] = "+faststart"
    count = 0
    with av.open(str(path), "w", options=options) as container:
        stream = None
        for count, frame in enumerate(frames, start=1):
            if stream is None:
                stream = _stream(container, frame.shape[1], frame.shape[0], codec, fps, keyframe_interval, times_ms)
            image = av.VideoFrame.from_ndarray(frame, format="rgb24")
            image.pts = count - 1 if times_ms is None else times_ms[count - 1]
            image.time_base = 1 / fps if times_ms is None else MILLISECOND
            container.mux(stream.encode(image))
        if stream is not None:
            container.mux(stream.encode())
    return count


def _stream(
    container: av.container.OutputContainer,
    width: int,
    height: int,
    codec: str,
    fps: Fraction,
    keyframe_interval: int,
    times_ms: list[int] | None,
) -> av.VideoStream:
    encoder, pixel_format = ENCODERS[codec]
    stream = container.add_stream(encoder, rate=fps)
    assert isinstance(stream, av.VideoStream)
    stream.width = width
    stream.height = height
    stream.pix_fmt = pixel_format
    context = stream.codec_context
    context.thread_count = 1
    context.flags |= Flags.bitexact
    context.gop_size = keyframe_interval
    if times_ms is not None:
        context.time_base = MILLISECOND
    if codec == "h264":
        context.options = {"preset": "veryfast", "crf": "23", "x264-params": f"threads=1:keyint={keyframe_interval}"}
    else:
        context.bit_rate = round(width * height * float(fps) * (1.6 if codec == "mjpeg" else 0.5))
    return stream


def read_video(path: Path) -> Iterator[Pixels]:
    """The frames of a video in order, RGB."""
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.to_ndarray(format="rgb24")


def write_image(path: Path, image: Pixels, jpeg_quality: int = 90) -> None:
    """Write an RGB image as the format that the file's name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encode_image(image, path.suffix, jpeg_quality))


def encode_image(image: Pixels, suffix: str, jpeg_quality: int = 90) -> bytes:
    flags = [cv2.IMWRITE_JPEG_QUALITY, jpeg_quality] if suffix == ".jpg" else [cv2.IMWRITE_PNG_COMPRESSION, 3]
    done, content = cv2.imencode(suffix, image[..., ::-1], flags)
    assert done
    return content.tobytes()


def read_image(path: Path) -> Pixels:
    content = cv2.imread(str(path), cv2.IMREAD_COLOR)
    assert content is not None, path
    return np.ascontiguousarray(content[..., ::-1])
