"""Which images belong together: equal files, near-duplicates, and those of one patient or video.

A group never stands on two sides of a split, and a bootstrap draws it whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.labeled_images import LabeledImage
from panendofm.imaging.groups import linked_groups, near_duplicate_groups


def content_groups(sha256: Sequence[str], hashes: Sequence[bytes], max_bits: int) -> NDArray[np.int64]:
    """A number for every image: equal files and chains of near-duplicates share one."""
    firsts: dict[str, int] = {}
    members = [firsts.setdefault(digest, len(firsts)) for digest in sha256]
    # One image of each set of equal files is enough to compare.
    unique = dict(zip(members, hashes, strict=True))
    table = np.stack([np.frombuffer(unique[i], np.uint8) for i in range(len(firsts))])
    groups: NDArray[np.int64] = near_duplicate_groups(table, max_bits)[np.array(members)]
    return groups


def image_groups(images: Sequence[LabeledImage], max_bits: int) -> NDArray[np.int64]:
    """A number for every image: near-duplicates, and images that share a patient or video, have the same."""
    return linked_groups(image_links(images, max_bits))


def image_links(images: Sequence[LabeledImage], max_bits: int) -> list[tuple[str, ...]]:
    """Names of what ties an image to others; images that share one belong together."""
    contents = content_groups([i.sha256 for i in images], [i.hash_bytes for i in images], max_bits)
    return [(f"content {content}", *image.links) for image, content in zip(images, contents.tolist(), strict=True)]
