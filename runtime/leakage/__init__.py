"""Whether a picture is a copy of one of a set: keeps evaluation images out of shards, and finds them there."""

from runtime.leakage.compare import THUMBNAIL_PX, Thumbnail, thumbnail_of
from runtime.leakage.guard import Guard, LeakageConfig, Match, build_guard
from runtime.leakage.guard_folder import FEW_VECTORS, write_guard
from runtime.leakage.views import COVERED, WINDOWS

__all__ = [
    "COVERED",
    "FEW_VECTORS",
    "THUMBNAIL_PX",
    "WINDOWS",
    "Guard",
    "LeakageConfig",
    "Match",
    "Thumbnail",
    "build_guard",
    "thumbnail_of",
    "write_guard",
]
