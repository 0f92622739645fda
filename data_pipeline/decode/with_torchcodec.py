"""Decoding with torchcodec, on the CPU or on an NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from data_pipeline.decode.interface import DecodeConfig, DecodeError, Frame, Picker
from runtime.errors import UserError


def frames_of(path: Path, config: DecodeConfig) -> Iterator[Frame]:
    try:
        from torchcodec.decoders import VideoDecoder
    except (ImportError, RuntimeError) as error:
        raise UserError(
            "decode.backend=torchcodec: torchcodec can't be imported; install it and FFmpeg, or set backend=pyav."
        ) from error
    try:
        decoder = VideoDecoder(str(path), dimension_order="NHWC", device=config.device)
        count = len(decoder)
        begin = decoder.get_frame_at(0).pts_seconds
    except (RuntimeError, ValueError, IndexError) as error:
        raise DecodeError(f"cannot be opened: {error}") from error
    picker = Picker(config)
    rate = float(decoder.metadata.average_fps or 1.0)
    index = 0
    while index < count:
        try:
            if config.sampling == "fps":
                frame = decoder.get_frame_played_at(begin + max(picker.target, 0.0) + 1e-3)
                index = round((frame.pts_seconds - begin) * rate)
            else:
                frame = decoder.get_frame_at(index)
        except (RuntimeError, ValueError, IndexError) as error:
            if config.sampling == "fps" and picker.target >= (count - 1) / rate:
                return  # the next wanted time lies behind the end
            raise DecodeError(f"decoding stopped: {error}") from error
        seconds = frame.pts_seconds - begin
        picker.take(index, seconds)
        yield Frame(index, seconds, frame.data.cpu().numpy())
        if config.sampling == "every":
            index += config.every_frames
