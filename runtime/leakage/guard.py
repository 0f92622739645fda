"""The index of guarded evaluation images, and the question whether a frame is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.config import option
from runtime.leakage.compare import DESCRIPTOR_PX, PARTS, Thumbnail, correlation_when_aligned, descriptor


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
        "Similarity of the quick search from which an image is compared closely.", 0.45, low=-1, high=1
    )
    candidates: int = option("Images that are compared closely, per frame.", 4, low=1)
    min_correlation: float = option("Correlation after alignment from which a frame is a copy.", 0.55, low=-1, high=1)


@dataclass(frozen=True)
class GuardedImage:
    """One image of an evaluation set; `thumbnail` is None when the file could not be read."""

    name: str  # guarded set and path inside it
    sha256: str
    thumbnail: Thumbnail | None
    descriptors: NDArray[np.float32] | None  # [len(PARTS), 256]


@dataclass(frozen=True)
class Match:
    """A guarded image that a frame is a copy of."""

    number: int
    name: str
    sha256: str
    correlation: float


@dataclass(frozen=True)
class Guard:
    """All guarded images as arrays, so that Ray hands them to workers without a copy."""

    names: list[str]
    sha256: list[str]  # of the files: what may be published of an image, whose name may be a patient's
    descriptors: NDArray[np.float32]  # [len(PARTS) * N, 256], part by part
    greys: NDArray[np.uint8]  # [N, 96, 96]
    masks: NDArray[np.uint8]  # [N, 96, 96]

    def match(self, thumbnail: Thumbnail, config: LeakageConfig) -> Match | None:
        """The guarded image that this is a copy of, or None."""
        count = len(self.names)
        if count == 0:
            return None
        similarity = (self.descriptors @ descriptor(thumbnail)).reshape(len(PARTS), count)
        best_part = similarity.argmax(axis=0)
        best = similarity.max(axis=0)
        top = np.argsort(-best, kind="stable")[: config.candidates]
        found: Match | None = None
        for number in (int(i) for i in top if best[i] >= config.min_similarity):
            other = Thumbnail(self.greys[number], self.masks[number])
            correlation = correlation_when_aligned(thumbnail, other, PARTS[best_part[number]])
            if correlation >= config.min_correlation and (found is None or correlation > found.correlation):
                found = Match(number, self.names[number], self.sha256[number], round(correlation, 4))
        return found


def build_guard(images: Sequence[GuardedImage]) -> Guard:
    """The index of all readable images."""
    readable = [image for image in images if image.thumbnail is not None]
    thumbnails = [image.thumbnail for image in readable if image.thumbnail is not None]
    descriptors = np.array([image.descriptors for image in readable], np.float32).reshape(
        -1, len(PARTS), DESCRIPTOR_PX**2
    )
    shape = (len(thumbnails), *(thumbnails[0].grey.shape if thumbnails else (0, 0)))
    return Guard(
        names=[image.name for image in readable],
        sha256=[image.sha256 for image in readable],
        descriptors=np.ascontiguousarray(descriptors.transpose(1, 0, 2)).reshape(-1, DESCRIPTOR_PX**2),
        greys=np.array([t.grey for t in thumbnails], np.uint8).reshape(shape),
        masks=np.array([t.mask for t in thumbnails], np.uint8).reshape(shape),
    )


def guarded_image(name: str, sha256: str, thumbnail: Thumbnail | None) -> GuardedImage:
    """An image with the vectors of all its parts."""
    vectors = None if thumbnail is None else np.stack([descriptor(thumbnail, part) for part in PARTS])
    return GuardedImage(name, sha256, thumbnail, vectors)
