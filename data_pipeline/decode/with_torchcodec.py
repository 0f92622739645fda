"""Decoding with torchcodec, on the CPU or on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from data_pipeline.decode.config import DecodeConfig
from data_pipeline.decode.interface import EARLY_SECONDS, DecodeError, Frame, Picker
from panendofm.runtime.errors import UserError

_ERRORS = (RuntimeError, ValueError, IndexError)


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    try:
        from torchcodec.decoders import VideoDecoder
    except (ImportError, RuntimeError) as error:
        raise UserError(
            "decode.backend=torchcodec: torchcodec can't be imported; install it and FFmpeg, or set backend=pyav."
        ) from error
    try:
        decoder = VideoDecoder(str(path), dimension_order="NHWC", device=config.device)
        begin = decoder.get_frame_at(0).pts_seconds
    except _ERRORS as error:
        raise DecodeError(f"cannot be opened: {_first_line(error)}") from error
    frames = _by_count(decoder, config) if config.sampling == "every" else _by_time(decoder, begin, config)
    try:
        for index, frame in frames:
            yield Frame(index, frame.pts_seconds - begin, frame.data.cpu().numpy())
    except _ERRORS as error:
        raise DecodeError(f"decoding stopped: {_first_line(error)}") from error


def _by_count(decoder: Any, config: DecodeConfig) -> Iterator[tuple[int, Any]]:
    for index in range(0, len(decoder), config.every_frames):
        yield index, decoder.get_frame_at(index)


def _by_time(decoder: Any, begin: float, config: DecodeConfig) -> Iterator[tuple[int, Any]]:
    """The first frame from each wanted time on. torchcodec gives the one on show then, which may be the one before."""
    picker, index = Picker(config), -1
    end, rate = decoder.metadata.end_stream_seconds, decoder.metadata.average_fps or 1.0
    while (time := begin + max(picker.target, 0.0)) < end:
        frame = decoder.get_frame_played_at(time)
        if frame.pts_seconds < time:
            after = frame.pts_seconds + frame.duration_seconds + EARLY_SECONDS
            if after >= end:
                return
            frame = decoder.get_frame_played_at(after)
        seconds = frame.pts_seconds - begin
        # torchcodec does not tell a frame's number; with a variable frame rate this is about right. Never one twice.
        index = max(round(seconds * rate), index + 1)
        picker.take(index, seconds)
        yield index, frame


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
