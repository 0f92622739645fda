"""Decoding with PyAV.

Compressed packets are read one after the other; only those that lead to a wanted frame are decoded. The packets since
the last key frame wait in a list. When the next key frame comes no later than the wanted time, they are thrown away
unseen; else they are decoded, without those frames before the wanted time that no other frame refers to. This needs no
seek table, so it works on any container, and skips more than seeking would.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.container import InputContainer
from av.video.stream import VideoStream
from numpy.typing import NDArray

from data_pipeline.decode.config import DecodeConfig
from data_pipeline.decode.interface import EARLY_SECONDS, DecodeError, Frame, Picker
from panendofm.imaging.videos import SteadyClock, open_video

# Packets kept back at most. A longer group of images is decoded as it comes: memory stays bounded.
_MAX_WAITING = 600


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    container, stream = _open(path)
    with container:
        reader = _Reader(stream, config)
        stopped: Exception | None = None
        try:
            for packet in container.demux(stream):
                yield from reader.feed(packet)
        except (av.FFmpegError, ValueError) as error:
            stopped = error
        yield from reader.finish()  # what waits may be whole: the break is behind it
        if stopped is not None:
            raise DecodeError(f"reading stopped: {_reason(stopped)}") from stopped
        reader.check_whole()


def probe_frames(path: Path, count: int) -> list[NDArray[np.uint8]]:
    try:
        container, stream = _open(path)
    except DecodeError:
        return []
    found: dict[int | None, NDArray[np.uint8]] = {}  # by time: two seeks may lead to one key frame
    with container:
        # In microseconds, of the container: Matroska does not say how long its streams are.
        begin, length = container.start_time or 0, container.duration or 0
        for i in range(count if length else 1):
            try:
                container.seek(begin + length * i // count)
                packet = next(packet for packet in container.demux(stream) if packet.size and packet.is_keyframe)
                if _time_of(packet) not in found:
                    frame = _decode_alone(stream, packet)[0]
                    found[_time_of(packet)] = np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
            except (av.FFmpegError, StopIteration, IndexError, ValueError):
                continue  # there is nothing to see at this place; the others will do
    return list(found.values())


def refuse_other_formats(path: Path) -> None:
    """For libraries that would follow a playlist to other files."""
    _open(path)[0].close()


def _decode_alone(stream: VideoStream, packet: av.Packet[VideoStream]) -> list[av.VideoFrame]:
    """The frame of a key packet, now: a decoder would like to see some more packets first."""
    try:
        return [*stream.codec_context.decode(packet), *stream.codec_context.decode(None)]
    finally:
        stream.codec_context.flush_buffers()


def _open(path: Path) -> tuple[InputContainer, VideoStream]:
    try:
        container = open_video(path)
    except (av.FFmpegError, ValueError, OSError) as error:
        raise DecodeError(f"cannot be opened: {_reason(error)}") from error
    if not container.streams.video:
        container.close()
        raise DecodeError("holds no video stream")
    stream = container.streams.video[0]
    if stream.codec_context is None:  # whatever its type says
        container.close()
        raise DecodeError("is in a video format that is not known")
    # One thread: the work is spread over processes, and images do not depend on the number of threads anyway.
    stream.codec_context.thread_count = 1
    return container, stream


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _time_of(item: av.Packet[VideoStream] | av.VideoFrame) -> int | None:
    """When it is shown; some containers only say when it is decoded."""
    time: int | None = item.pts if item.pts is not None else item.dts
    return time


class _Reader:
    """Takes packets, gives the wanted frames. After a packet that does not decode it goes on at the next key frame."""

    def __init__(self, stream: VideoStream, config: DecodeConfig) -> None:
        self._stream = stream
        self._codec = stream.codec_context
        self._keyframes_only = config.sampling == "keyframes"
        self._by_count = config.sampling == "every"
        self._picker = Picker(config)
        self._waiting: list[av.Packet[VideoStream]] = []
        self._is_due = False  # one of those that wait is behind the target
        self._key: tuple[int, int] | None = None  # the last key packet: its place in the list and its time
        self._alone: list[av.VideoFrame] = []  # a key frame whose number is not known yet
        self._starts_anew = False  # packets were left out since the decoder last saw one
        self._lost = False  # until the next key frame, what other frames refer to is missing
        self._packets = 0
        self._faults: list[str] = []  # of packets that did not decode
        self._shown_before = 0  # packets whose time is before all of `_recent`
        self._recent: list[int] = []  # times of the packets since the last taken frame, sorted
        self._start = stream.start_time or 0
        base = stream.time_base or Fraction(0)
        self._ticks = base.numerator, base.denominator  # as integers: fractions are slow
        self._clock = SteadyClock(self._ticks[1] / (self._ticks[0] or 1))

    def feed(self, packet: av.Packet[VideoStream]) -> Iterator[Frame]:
        if packet.size == 0 or _time_of(packet) is None:
            return
        self._steady(packet)
        time = _time_of(packet)
        assert time is not None
        self._packets += 1
        insort(self._recent, time)
        if self._keyframes_only:
            yield from self._feed_key(packet, time)
            return
        # Frames that are shown before a key frame may follow it in the file. All have come when a later one comes.
        if self._key is not None and time > self._key[1]:
            yield from self._settle_key()
        if packet.is_keyframe:
            self._key = (len(self._waiting), time)
            self._lost = False
        if not self._lost:
            self._waiting.append(packet)
            self._is_due |= not self._before_target(time)
        if (self._is_due and self._key is None) or len(self._waiting) > _MAX_WAITING:
            yield from self._decode_waiting()

    def _steady(self, packet: av.Packet[VideoStream]) -> None:
        """Let the packet's times go on where a recording ends and the clock of the next begins."""
        stored = packet.dts if packet.dts is not None else packet.pts
        shift = round(self._clock.shift(stored)) if stored is not None else 0
        if shift:
            packet.pts = None if packet.pts is None else packet.pts + shift
            packet.dts = None if packet.dts is None else packet.dts + shift

    def _feed_key(self, packet: av.Packet[VideoStream], time: int) -> Iterator[Frame]:
        if self._alone and time > (_time_of(self._alone[0]) or 0):
            yield from self._offer_all(self._alone)
            self._alone = []
        if packet.is_keyframe and not self._alone and not self._before_target(time):
            self._alone = self._decoded(packet, alone=True)

    def _settle_key(self) -> Iterator[Frame]:
        """Begin with the last key frame if nothing in front of it is wanted; then decode what is due."""
        assert self._key is not None
        place, time = self._key
        self._key = None
        position = self._index(time) if self._by_count else self._seconds(time)
        if place and position <= self._picker.target + 2 * EARLY_SECONDS:
            del self._waiting[:place]
            self._starts_anew = True
        if self._is_due:
            yield from self._decode_waiting()

    def _before_target(self, time: int) -> bool:
        return (self._packets - 1 if self._by_count else self._seconds(time)) < self._picker.target

    def _index(self, time: int) -> int:
        """The number of the frame that is shown at this time."""
        return self._shown_before + bisect_left(self._recent, time)

    def _decode_waiting(self) -> Iterator[Frame]:
        if self._starts_anew:
            self._codec.flush_buffers()
            self._starts_anew = False
        packets = self._waiting
        self._waiting = []
        self._is_due = False
        self._key = None
        for packet in packets:
            # Of frames that will not be taken only those are decoded that others are predicted from. Without its time
            # of showing (some AVI files), or by count, the place of a packet is not known for sure.
            is_early = not self._by_count and packet.pts is not None and self._before_target(packet.pts)
            self._codec.skip_frame = "NONREF" if is_early else "DEFAULT"
            yield from self._offer_all(self._decoded(packet))
            if self._lost:
                return

    def finish(self) -> Iterator[Frame]:
        """What is left in the list and in the decoder."""
        yield from self._offer_all(self._alone)
        if self._key is not None:
            yield from self._settle_key()
        yield from self._decode_waiting()
        yield from self._offer_all(self._decoded(None))

    def _decoded(self, packet: av.Packet[VideoStream] | None, alone: bool = False) -> list[av.VideoFrame]:
        """The frames that the decoder gives for this packet (None: all that it still holds)."""
        try:
            if packet is not None and alone:
                return _decode_alone(self._stream, packet)
            return self._codec.decode(packet)
        except av.EOFError:
            return []  # it was empty before
        except (av.FFmpegError, ValueError) as error:
            self._faults.append(_reason(error))
            self._lost = True
            return [] if alone else self._what_it_still_holds()

    def _what_it_still_holds(self) -> list[av.VideoFrame]:
        """Frames that the decoder finished before it met a broken packet; it is empty afterwards."""
        try:
            return self._codec.decode(None)
        except (av.FFmpegError, ValueError):
            return []  # the fault is noted already
        finally:
            self._codec.flush_buffers()

    def _offer_all(self, frames: list[av.VideoFrame]) -> Iterator[Frame]:
        for frame in frames:
            time = _time_of(frame)
            if time is None or frame.is_corrupt:
                continue
            index, seconds = self._index(time), self._seconds(time)
            if self._picker.wants(index, seconds):
                self._picker.take(index, seconds)
                self._shown_before = index
                del self._recent[: bisect_left(self._recent, time)]
                yield Frame(index, seconds, np.asarray(frame.to_ndarray(format="rgb24"), np.uint8))

    def _seconds(self, time: int) -> float:
        return (time - self._start) * self._ticks[0] / self._ticks[1]

    def check_whole(self) -> None:
        """Raise when packets did not decode, or when the container promised more of them than there were."""
        promised = self._stream.frames
        if self._packets == 0:
            raise DecodeError("holds no frames")
        if self._faults:
            raise DecodeError(f"{len(self._faults)} of {self._packets} frames do not decode: {self._faults[0]}")
        if promised and self._packets < promised:
            raise DecodeError(f"ends early: {self._packets} of {promised} frames are there")
