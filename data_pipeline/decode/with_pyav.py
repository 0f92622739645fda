"""Decoding with PyAV.

Compressed packets are read one after the other; only those that lead to a wanted frame are decoded. The packets since
the last key frame wait in a list. When the next key frame still lies before the wanted time, they are thrown away
unseen; else they are decoded. This needs no seek table, so it works on any container, and skips as much as seeking
would.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from data_pipeline.decode.interface import DecodeConfig, DecodeError, Frame, Picker

# Packets kept back at most. A longer group of pictures is decoded as it comes: memory stays bounded.
_MAX_WAITING = 600


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    container, stream = _open(path)
    with container:
        reader = _Reader(stream, config)
        try:
            for packet in container.demux(stream):
                yield from reader.feed(packet)
        except (av.FFmpegError, ValueError) as error:
            # What waits may be whole: the break is behind it.
            yield from reader.finish(quiet=True)
            raise DecodeError(f"decoding stopped: {_reason(error)}") from error
        try:
            yield from reader.finish()
        except (av.FFmpegError, ValueError) as error:
            raise DecodeError(f"decoding stopped: {_reason(error)}") from error
        reader.check_whole()


def probe_frames(path: Path, count: int) -> list[NDArray[np.uint8]]:
    try:
        container, stream = _open(path)
    except DecodeError:
        return []
    found: list[NDArray[np.uint8]] = []
    with container:
        length = stream.duration or 0
        for i in range(count):
            try:
                container.seek((stream.start_time or 0) + length * i // count, stream=stream)
                frame = next(container.decode(stream))
            except (av.FFmpegError, StopIteration, ValueError):
                continue
            found.append(np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))
            if not length:
                break
    return found


def _open(path: Path) -> tuple[InputContainer, VideoStream]:
    try:
        container = av.open(str(path), metadata_errors="replace")
    except (av.FFmpegError, ValueError, OSError) as error:
        raise DecodeError(f"cannot be opened: {_reason(error)}") from error
    if not container.streams.video:
        container.close()
        raise DecodeError("holds no video stream")
    stream = container.streams.video[0]
    # One thread: the work is spread over processes, and pictures do not depend on the number of threads anyway.
    stream.codec_context.thread_count = 1
    return container, stream


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class _Reader:
    """Takes packets, gives the wanted frames."""

    def __init__(self, stream: VideoStream, config: DecodeConfig) -> None:
        self._stream = stream
        self._keyframes_only = config.sampling == "keyframes"
        self._by_count = config.sampling == "every"
        self._picker = Picker(config)
        self._waiting: list[av.Packet[VideoStream]] = []
        self._skipped = False  # packets were thrown away since the decoder last saw one
        self._packets = 0
        self._shown_before = 0  # packets whose time is before all of `_recent`
        self._recent: list[int] = []  # times of the packets since the last taken frame, sorted
        self._start = stream.start_time or 0

    def feed(self, packet: av.Packet[VideoStream]) -> Iterator[Frame]:
        time = packet.pts if packet.pts is not None else packet.dts
        if packet.size == 0 or time is None:
            return
        self._packets += 1
        insort(self._recent, time)
        if self._keyframes_only and not packet.is_keyframe:
            return
        if packet.is_keyframe and self._waiting and self._before_target(time):
            self._waiting.clear()
            self._skipped = True
        self._waiting.append(packet)
        # B frames arrive late, so a packet behind the target is needed; one more group of pictures is always enough.
        if not self._before_target(time) or len(self._waiting) > _MAX_WAITING:
            yield from self._decode_waiting()

    def _before_target(self, time: int) -> bool:
        if self._by_count:
            return self._packets - 1 <= self._picker.target
        return self._seconds(time) <= self._picker.target

    def _decode_waiting(self) -> Iterator[Frame]:
        if self._skipped:
            self._stream.codec_context.flush_buffers()
            self._skipped = False
        packets, self._waiting = self._waiting, []
        for packet in packets:
            for frame in packet.decode():
                yield from self._offer(frame)

    def finish(self, quiet: bool = False) -> Iterator[Frame]:
        """What is left in the list and in the decoder. `quiet` ends at the first error."""
        try:
            yield from self._decode_waiting()
            for frame in self._stream.codec_context.decode(None):
                yield from self._offer(frame)
        except (av.FFmpegError, ValueError):
            if not quiet:
                raise

    def _offer(self, frame: av.VideoFrame) -> Iterator[Frame]:
        time = frame.pts if frame.pts is not None else frame.dts
        if time is None:
            return
        index = self._shown_before + bisect_left(self._recent, time)
        seconds = self._seconds(time)
        if self._picker.wants(index, seconds):
            self._picker.take(index, seconds)
            self._shown_before = index
            del self._recent[: bisect_left(self._recent, time)]
            yield Frame(index, seconds, np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))

    def _seconds(self, time: int) -> float:
        base = self._stream.time_base
        return float((time - self._start) * base) if base is not None else 0.0

    def check_whole(self) -> None:
        """Raise when the container promised more frames than there were."""
        promised = self._stream.frames
        if self._packets == 0:
            raise DecodeError("holds no frames")
        if promised and self._packets < promised:
            raise DecodeError(f"ends early: {self._packets} of {promised} frames are there")
