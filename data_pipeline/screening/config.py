"""The keys of `duplicates`."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.runtime.config import option


@dataclass
class DuplicatesConfig:
    """How alike images must be to count as one; distances are in bits of 256, unrelated images are 128 apart."""

    frozen_bits: int = option("A frame at most this far from the one before it is frozen.", 2, low=0, high=256)
    frame_bits: int = option(
        "A frame at most this far from a kept frame of its video is a near-duplicate.", 12, low=0, high=256
    )
    video_bits: int = option("Frames of two videos at most this far apart show the same.", 36, low=0, high=256)
    aligned_bits: int = option(
        "The same for two videos that were aligned in time, such as a copy at another speed.", 80, low=0, high=256
    )
    video_share: float = option(
        "Share of the shorter video's frames that the other must hold for it to be a copy.", 0.5, above=0, high=1
    )
    image_bits: int = option(
        "A single image at most this far from another frame of the run is a copy.", 6, low=0, high=256
    )
