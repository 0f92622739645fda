"""The index of guarded evaluation images, and the question whether a frame is one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.leakage.compare import (
    DESCRIPTOR_LENGTH,
    Thumbnail,
    correlation_when_aligned,
    descriptors_of_symmetries,
    descriptors_of_windows,
)
from panendofm.imaging.leakage.config import LeakageConfig
from panendofm.imaging.leakage.views import SYMMETRIES, WINDOWS, after, inverse

# Neighboring windows are alike; the first of another one is soon met.
_VIEWS_LOOKED_AT = 12


@dataclass(frozen=True)
class GuardedImage:
    """One image of an evaluation set; `thumbnail` is None when the file could not be read."""

    name: str  # guarded set and path inside it
    sha256: str
    thumbnail: Thumbnail | None
    descriptors: NDArray[np.float32] | None  # [windows, 64]


@dataclass(frozen=True)
class Match:
    """A guarded image that a frame is a copy of."""

    number: int
    name: str
    sha256: str
    correlation: float


class LikelyImages(Protocol):
    """Names the images that may be one."""

    def likely_images(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]: ...


@dataclass(frozen=True)
class Guard:
    """All guarded images as arrays, so that Ray hands them to workers without a copy.

    Those of very many images lie in the files of a folder (`guard_folder.py`), of which a worker gets the name alone.
    """

    names: list[str]
    sha256: list[str]  # of the files: what may be published of an image, whose name may be a patient's
    descriptors: NDArray[np.float32]  # [N · windows, 64]
    grays: NDArray[np.uint8]  # [N, 96, 96]
    masks: NDArray[np.uint8]  # [N, 96, 96]
    index: LikelyImages | None = None  # None: all images are measured
    folder: Path | None = None

    def __reduce__(self) -> Any:
        if self.folder is None:
            return super().__reduce__()
        from panendofm.imaging.leakage.guard_folder import open_guard

        return open_guard, (self.folder,)

    def match(self, thumbnail: Thumbnail, config: LeakageConfig) -> Match | None:
        """The guarded image that this is a copy of, or None."""
        if not self.names:
            return None
        vectors = descriptors_of_symmetries(thumbnail)  # [8, 64]
        looked_at = None if self.index is None else self.index.likely_images(vectors)
        for place, pair in self._candidates(self._similarity(vectors, looked_at), config):
            number = place if looked_at is None else int(looked_at[place])
            window, symmetry = divmod(pair, len(SYMMETRIES))
            # A place of the turned frame is `symmetry` of the frame's and `window` of the guarded image's.
            view = after(inverse(SYMMETRIES[symmetry]), WINDOWS[window])
            other = Thumbnail(self.grays[number], self.masks[number])
            correlation = correlation_when_aligned(thumbnail, other, view)
            if correlation >= config.min_correlation:
                return Match(number, self.names[number], self.sha256[number], round(correlation, 4))
        return None

    def _similarity(self, vectors: NDArray[np.float32], looked_at: NDArray[np.int64] | None) -> NDArray[np.float32]:
        """Of a frame's vectors [8, 64] to all windows of the images that are looked at: [n, windows · 8]."""
        descriptors = self.descriptors
        if looked_at is not None:
            by_image = descriptors.reshape(len(self.names), len(WINDOWS), -1)
            descriptors = by_image[looked_at].reshape(-1, descriptors.shape[1])
        return (descriptors @ vectors.T).reshape(-1, len(WINDOWS) * len(SYMMETRIES))

    def _candidates(self, similarity: NDArray[np.float32], config: LeakageConfig) -> list[tuple[int, int]]:
        """(image, view) in the order in which they are tried: likely images, each by its two likeliest windows."""
        best = similarity.max(axis=1)
        found = []
        for number in np.argsort(-best, kind="stable")[: config.candidates]:
            views = np.argsort(-similarity[number], kind="stable")[:_VIEWS_LOOKED_AT]
            other_window = [v for v in views if v // len(SYMMETRIES) != views[0] // len(SYMMETRIES)][:1]
            found += [(int(number), int(v)) for v in (views[0], *other_window)]
        return [(number, view) for number, view in found if similarity[number, view] >= config.min_similarity]


def build_guard(images: Sequence[GuardedImage]) -> Guard:
    """The index of all readable images."""
    readable = [image for image in images if image.thumbnail is not None]
    thumbnails = [image.thumbnail for image in readable if image.thumbnail is not None]
    shape = (len(thumbnails), *(thumbnails[0].gray.shape if thumbnails else (0, 0)))
    return Guard(
        names=[image.name for image in readable],
        sha256=[image.sha256 for image in readable],
        descriptors=np.array([image.descriptors for image in readable], np.float32).reshape(-1, DESCRIPTOR_LENGTH),
        grays=np.array([t.gray for t in thumbnails], np.uint8).reshape(shape),
        masks=np.array([t.mask for t in thumbnails], np.uint8).reshape(shape),
    )


def guarded_image(name: str, sha256: str, thumbnail: Thumbnail | None) -> GuardedImage:
    """An image with the vectors of all its windows."""
    vectors = None if thumbnail is None else descriptors_of_windows(thumbnail)
    return GuardedImage(name, sha256, thumbnail, vectors)
