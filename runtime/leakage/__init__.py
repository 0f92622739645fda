"""Whether a picture is a copy of one of a set: keeps evaluation images out of shards, and finds them there."""

from runtime.leakage.compare import Thumbnail, thumbnail_of
from runtime.leakage.guard import Guard, LeakageConfig, Match, build_guard

__all__ = ["Guard", "LeakageConfig", "Match", "Thumbnail", "build_guard", "thumbnail_of"]
