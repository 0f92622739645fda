"""Decoding with decord."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data_pipeline.decode.config import DecodeConfig
from data_pipeline.decode.interface import DecodeError, Frame, Picker
from panendofm.runtime.errors import UserError


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    try:
        import decord
    except ImportError as error:
        raise UserError(
            "decode.backend=decord: decord is not installed; install it or set decode.backend=pyav."
        ) from error
    try:
        reader = decord.VideoReader(str(path), num_threads=1)
        times = [float(span[0]) for span in reader.get_frame_timestamp(range(len(reader)))]
    except (decord.DECORDError, RuntimeError) as error:
        raise DecodeError(f"cannot be opened: {_first_line(error)}") from error
    picker = Picker(config)
    begin = times[0] if times else 0.0
    for index, time in enumerate(times):
        seconds = time - begin
        if not picker.wants(index, seconds):
            continue
        picker.take(index, seconds)
        try:
            rgb = reader[index].asnumpy()
        except (decord.DECORDError, RuntimeError) as error:
            raise DecodeError(f"decoding stopped: {_first_line(error)}") from error
        yield Frame(index, seconds, rgb)


def _first_line(error: Exception) -> str:
    """decord adds a stack trace of its own to the message."""
    return str(error).split("\n", 1)[0]
