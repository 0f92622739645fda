"""Frames of a video, by one small interface: `frames_of(path, config)`."""

from data_pipeline.decode.interface import DecodeConfig, DecodeError, Frame, frames_of, probe_frames

__all__ = ["DecodeConfig", "DecodeError", "Frame", "frames_of", "probe_frames"]
