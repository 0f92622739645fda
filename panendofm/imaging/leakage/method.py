"""How images were compared, as a leakage certificate states it."""

from __future__ import annotations

from panendofm.imaging.leakage.compare import THUMBNAIL_PX
from panendofm.imaging.leakage.config import LeakageConfig
from panendofm.imaging.leakage.views import COVERED


def method_of(config: LeakageConfig) -> dict[str, str | int | float | list[str]]:
    return {
        "quick_search": "8x8 detail vectors of the field of view, in eight symmetries and many windows",
        "comparison": f"correlation of {THUMBNAIL_PX}x{THUMBNAIL_PX} detail images after affine alignment (ECC)",
        "covers": list(COVERED),
        "min_similarity": config.min_similarity,
        "candidates": config.candidates,
        "min_correlation": config.min_correlation,
    }
