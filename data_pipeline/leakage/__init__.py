"""Keeps the images of evaluation sets out of the shards."""

from data_pipeline.leakage.compare import Thumbnail, thumbnail_of
from data_pipeline.leakage.guard import Guard, LeakageConfig, Match, build_guard

__all__ = ["Guard", "LeakageConfig", "Match", "Thumbnail", "build_guard", "thumbnail_of"]
