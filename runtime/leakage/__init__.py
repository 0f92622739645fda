"""Whether a picture is a copy of one of a set: keeps evaluation images out of shards, and finds them there."""

from runtime.leakage.compare import THUMBNAIL_PX, Thumbnail, thumbnail_of
from runtime.leakage.guard import Guard, LeakageConfig, Match, build_guard
from runtime.leakage.views import COVERED

__all__ = ["COVERED", "THUMBNAIL_PX", "Guard", "LeakageConfig", "Match", "Thumbnail", "build_guard", "thumbnail_of"]
