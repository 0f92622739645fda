"""Guards of very many images: their arrays lie in files that a node's workers map into memory and so share.

All windows of all images in all symmetries are too many to multiply with every frame: an index of FAISS (inverted lists
of vectors in 8 bits) names the likely images, and only these are measured exactly. What it may miss is stated by
`python -m benchmarks.scale guard`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import faiss
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.leakage.compare import DESCRIPTOR_LENGTH, THUMBNAIL_PX
from panendofm.imaging.leakage.guard import Guard, GuardedImage
from panendofm.imaging.leakage.views import WINDOWS
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import atomic_directory, read_json_object, write_json

# So many vectors are multiplied with a frame's as fast as an index finds its way: they need none.
FEW_VECTORS = 1_000_000
# Of all inverted lists, those that are looked through for one vector: an eighth finds 0.997 of what is barely alike.
_PROBED_SHARE = 1 / 8
_VECTORS_FOUND = 16
_TRAINING_PER_LIST = 48
_MOST_LISTS = 8192
_BLOCK = 100_000  # vectors that are added at a time
_NAMES, _INDEX = "images.json", "vectors.faiss"
_VECTORS, _GRAYS, _MASKS = "vectors.f32", "grays.u8", "masks.u8"


class VectorIndex:
    """The images whose vectors are near to some."""

    def __init__(self, index: faiss.Index, vectors_per_image: int) -> None:
        self._index, self._per_image = index, vectors_per_image

    def likely_images(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Numbers of images in rising order, of vectors [n, 64] of one frame."""
        _, found = self._index.search(np.ascontiguousarray(vectors), _VECTORS_FOUND)
        return np.unique(found[found >= 0] // self._per_image)


def build_vector_index(vectors: NDArray[np.float32]) -> faiss.Index:
    """The index of vectors [n, 64], which may be a memory map: it is read block by block. The same for the same."""
    lists = int(np.clip(4 * len(vectors) ** 0.5, 1, _MOST_LISTS))
    lists = max(1, min(lists, len(vectors) // _TRAINING_PER_LIST))
    index = faiss.index_factory(vectors.shape[1], f"IVF{lists},SQ8", faiss.METRIC_INNER_PRODUCT)
    sample = np.unique(np.linspace(0, len(vectors) - 1, lists * _TRAINING_PER_LIST).astype(np.int64))
    index.train(np.ascontiguousarray(vectors[sample]))
    for start in range(0, len(vectors), _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK]))
    faiss.ParameterSpace().set_index_parameter(index, "nprobe", max(1, round(lists * _PROBED_SHARE)))
    return index


def write_guard(images: Iterable[GuardedImage], folder: Path) -> Guard:
    """The guard of all readable images in files of a new folder, opened from there; one image in memory at a time."""
    names, sha256 = [], []
    with atomic_directory(folder) as inside:
        vectors, grays, masks = ((inside / name).open("wb") for name in (_VECTORS, _GRAYS, _MASKS))
        with vectors, grays, masks:
            for image in images:
                if image.thumbnail is not None and image.descriptors is not None:
                    names.append(image.name)
                    sha256.append(image.sha256)
                    _append(vectors, image.descriptors.astype(np.float32))
                    _append(grays, image.thumbnail.gray)
                    _append(masks, image.thumbnail.mask)
        write_json(inside / _NAMES, {"names": names, "sha256": sha256})
        if names:
            faiss.write_index(
                build_vector_index(_mapped(inside / _VECTORS, np.float32, DESCRIPTOR_LENGTH)), str(inside / _INDEX)
            )
    return open_guard(folder)


@functools.lru_cache(maxsize=1)
def open_guard(folder: Path) -> Guard:
    """The guard of a folder; its arrays are maps of the files. Once per process: names of many images take a while."""
    described = read_json_object(folder / _NAMES)
    if not described["names"]:
        return Guard([], [], *(np.empty(0, kind) for kind in (np.float32, np.uint8, np.uint8)))  # type: ignore[arg-type]
    vectors = _mapped(folder / _VECTORS, np.float32, DESCRIPTOR_LENGTH)
    if len(vectors) != len(described["names"]) * len(WINDOWS):
        raise UserError(f"{folder / _VECTORS} does not hold the vectors of all guarded images; remove the folder.")
    shape = (-1, THUMBNAIL_PX, THUMBNAIL_PX)
    return Guard(
        names=described["names"],
        sha256=described["sha256"],
        descriptors=vectors,
        grays=_mapped(folder / _GRAYS, np.uint8, THUMBNAIL_PX**2).reshape(shape),
        masks=_mapped(folder / _MASKS, np.uint8, THUMBNAIL_PX**2).reshape(shape),
        index=VectorIndex(faiss.read_index(str(folder / _INDEX), faiss.IO_FLAG_MMAP), len(WINDOWS)),
        folder=folder,
    )


def _mapped(path: Path, kind: type, width: int) -> NDArray:  # type: ignore[type-arg]
    return np.memmap(path, kind, mode="r").reshape(-1, width)


def _append(stream: IO[bytes], array: NDArray) -> None:  # type: ignore[type-arg]
    stream.write(np.ascontiguousarray(array).tobytes())
