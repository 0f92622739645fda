"""The leakage guard's quick search among very many images: what an index misses, and what it saves.

    python -m benchmarks.scale guard [--vectors 400000]

Vectors are generated: images around common themes, as the frames of one organ are, each seen through several windows. A
frame is a changed copy: one of its eight turned vectors has a product of `--similarity` with a window of its image, the
others none. Recall: of the images that the comparison with all vectors puts first, those that the index names.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.leakage.guard_folder import VectorIndex, build_vector_index

WIDTH, WINDOWS, SYMMETRIES, THEMES = 64, 8, 8, 24
FRAMES = 400

Floats = NDArray[np.float32]


def unit(vectors: Floats) -> Floats:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def generated(count: int, random: np.random.Generator) -> Floats:
    """[count, 64], the windows of an image side by side."""
    images = count // WINDOWS
    themes = random.standard_normal((THEMES, WIDTH), dtype=np.float32) / THEMES**0.5
    own = random.standard_normal((images, THEMES), dtype=np.float32) @ themes * 0.8
    own += 0.6 * random.standard_normal((images, WIDTH), dtype=np.float32)
    windows = own[:, None] + 0.6 * random.standard_normal((images, WINDOWS, WIDTH), dtype=np.float32)
    return unit(windows.reshape(-1, WIDTH))


def copies(vectors: Floats, similarity: float, random: np.random.Generator) -> Floats:
    """[FRAMES, 8, 64]"""
    frames = unit(random.standard_normal((FRAMES, SYMMETRIES, WIDTH), dtype=np.float32))
    chosen = vectors[random.integers(0, len(vectors), FRAMES)]
    noise = random.standard_normal((FRAMES, WIDTH), dtype=np.float32)
    noise = unit(noise - (noise * chosen).sum(axis=1, keepdims=True) * chosen)
    frames[np.arange(FRAMES), random.integers(0, SYMMETRIES, FRAMES)] = (
        similarity * chosen + np.sqrt(1 - similarity**2) * noise
    )
    return frames


def main(count: int, similarities: list[float], frame_count: int) -> None:
    random = np.random.default_rng(0)
    vectors = generated(count, random)
    began = time.process_time()
    index = build_vector_index(vectors)
    print(f"{len(vectors):,} vectors; index built in {time.process_time() - began:.1f} cpu seconds")
    search = VectorIndex(index, WINDOWS)
    for similarity in similarities:
        frames = copies(vectors, similarity, random)[:frame_count]
        began = time.process_time()
        truth = [int((vectors @ frame.T).max(axis=1).argmax()) // WINDOWS for frame in frames]
        brute = (time.process_time() - began) / len(frames)
        began = time.process_time()
        found = [search.likely_images(frame) for frame in frames]
        indexed = (time.process_time() - began) / len(frames)
        recall = np.mean([image in likely for image, likely in zip(truth, found, strict=True)])
        print(
            f"similarity {similarity}: recall {recall:.4f}; {1e3 * indexed:.1f} ms a frame, all vectors "
            f"{1e3 * brute:.1f} ms: {brute / indexed:.1f} times as fast"
        )
