"""Perceptual hashes: images that look the same get nearly the same bits.

The hash survives re-encoding, resizing and changes of brightness or contrast. It is the sign of the low frequencies of
the gray image (a discrete cosine transform), 256 bits. Unrelated images differ in about 128 of them, copies that
were re-encoded or resized in fewer than 20.
"""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

SIDE_PX = 64
FREQUENCIES = 16
HASH_BYTES = FREQUENCIES * FREQUENCIES // 8

# Rows of the distance matrix that are worked on at once; bounds the memory for large sets.
_BLOCK_ROWS = 512


def perceptual_hash(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The hash of an RGB image [H, W, 3] (or a gray one [H, W]) as 32 bytes."""
    gray = image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    small = cv2.resize(gray, (SIDE_PX, SIDE_PX), interpolation=cv2.INTER_AREA).astype(np.float32)
    # The first row and column of frequencies are left out: they hold mean and slow shading, which lamps change.
    low = cv2.dct(small)[1 : FREQUENCIES + 1, 1 : FREQUENCIES + 1]
    return np.packbits((low > np.median(low)).reshape(-1))


def hamming_distances(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Number of differing bits between every row of a [N, n] and every row of b [M, n], as [N, M]."""
    result = np.empty((len(a), len(b)), np.int32)
    for start, block in distance_blocks(a, b):
        result[start : start + len(block)] = block
    return result


def distance_blocks(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> Iterator[tuple[int, NDArray[np.int32]]]:
    """Blocks of rows of the distance matrix, each with the number of its first row."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"hashes must be of equal length, as [N, n] and [M, n], not {a.shape} and {b.shape}")
    words_a, words_b = _as_words(a), _as_words(b)
    for start in range(0, len(a), _BLOCK_ROWS):
        rows = words_a[start : start + _BLOCK_ROWS]
        block = np.zeros((len(rows), len(b)), np.int32)
        for k in range(words_a.shape[1]):
            block += np.bitwise_count(rows[:, k, None] ^ words_b[None, :, k])
        yield start, block


def _as_words(hashes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """[N, n] bytes as [N, ceil(n / 8)] machine words, zero-filled: eight times fewer operations."""
    padded = np.zeros((len(hashes), -(-hashes.shape[1] // 8) * 8), np.uint8)
    padded[:, : hashes.shape[1]] = hashes
    return padded.view(np.uint64)
