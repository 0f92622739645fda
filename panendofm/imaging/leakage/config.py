"""The keys of the leakage guard."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option


@dataclass
class LeakageConfig:
    """Which evaluation sets are kept out, and how alike a frame must be to one of their images."""

    guard: list[str] = option("Folders of evaluation images that must not enter the shards.", [])
    max_unreadable_share: float = option(
        "Share of a guarded set's images that may be unreadable; more is an error: their copies would not be found.",
        0.01,
        low=0,
        high=1,
    )
    min_similarity: float = option(
        "Similarity of the quick search from which an image is compared closely.", 0.70, low=-1, high=1
    )
    candidates: int = option("Images that are compared closely, per frame.", 2, low=1)
    min_correlation: float = option("Correlation after alignment from which a frame is a copy.", 0.55, low=-1, high=1)
