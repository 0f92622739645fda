from .config import DecodeConfig
from .interface import DecodeError, Frame, frames_of, probe_frames

__all__ = [
    "DecodeConfig",
    "DecodeError",
    "Frame",
    "frames_of",
    "probe_frames",
]
