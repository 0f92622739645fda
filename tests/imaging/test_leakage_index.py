"""Guards of very many images: an index names the candidates, and workers share the files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from test_leakage import drawn, thumbnail

from panendofm.imaging.leakage import Guard, LeakageConfig, Thumbnail, build_guard, write_guard
from panendofm.imaging.leakage.guard import GuardedImage, guarded_image
from panendofm.imaging.leakage.guard_folder import VectorIndex, build_vector_index

IMAGES = 30


def images() -> list[GuardedImage]:
    unreadable = GuardedImage("set/broken", "f" * 64, None, None)
    return [*(guarded_image(f"set/{n}", f"{n:064x}", thumbnail(drawn(n))) for n in range(IMAGES)), unreadable]


def copies(number: int) -> list[Thumbnail]:
    """Changed as copies are: mirrored, turned, cut, darker."""
    image = drawn(number)
    height, width = image.shape[:2]
    cut = image[height // 10 : -height // 10, width // 10 : -width // 10]
    changed = (image, image[:, ::-1], np.rot90(image), cut, (image * 0.8).astype(np.uint8))
    return [thumbnail(np.ascontiguousarray(one)) for one in changed]


def found_by(guard: Guard) -> list[tuple[str, float] | None]:
    asked = [copy for number in range(0, IMAGES + 8, 4) for copy in copies(number)]  # the last ones are no copies
    matches = [guard.match(one, LeakageConfig()) for one in asked]
    return [None if match is None else (match.name, match.correlation) for match in matches]


def test_it_finds_what_the_comparison_with_all_images_finds(tmp_path: Path) -> None:
    exact, indexed = build_guard(images()), write_guard(images(), tmp_path / "guard")
    assert exact.index is None and indexed.index is not None and indexed.names == exact.names
    expected = found_by(exact)
    assert sum(match is not None for match in expected) >= 30 and None in expected
    assert found_by(indexed) == expected


def test_a_worker_gets_the_name_of_the_folder_and_maps_its_files(tmp_path: Path) -> None:
    guard = write_guard(images(), tmp_path / "guard")
    sent = pickle.dumps(guard)
    assert len(sent) < 1000
    received = pickle.loads(sent)
    for array in (received.descriptors, received.grays, received.masks):
        assert isinstance(array.base, np.memmap | np.ndarray) and not array.flags.writeable
    mapped = Path("/proc/self/maps").read_text()
    for name in ("vectors.f32", "grays.u8", "masks.u8", "vectors.faiss"):
        assert str(tmp_path / "guard" / name) in mapped
    assert received.match(copies(8)[1], LeakageConfig()).name == "set/8"


def test_small_guards_travel_whole() -> None:
    guard = build_guard(images()[:3])
    assert pickle.loads(pickle.dumps(guard)).names == guard.names


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float32]:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_recall_of_barely_alike_vectors() -> None:
    """Of vectors whose product with one of 30,000 is 0.75, just above where images are looked at closely."""
    random = np.random.default_rng(0)
    vectors = unit(random.standard_normal((30_000, 64)))
    chosen = random.choice(len(vectors), 500, replace=False)
    noise = random.standard_normal((500, 64))
    noise -= (noise * vectors[chosen]).sum(axis=1, keepdims=True) * vectors[chosen]
    queries = (0.75 * vectors[chosen] + np.sqrt(1 - 0.75**2) * unit(noise)).astype(np.float32)
    index = VectorIndex(build_vector_index(vectors), 1)
    nearest = (queries @ vectors.T).argmax(axis=1)
    found = np.mean([best in index.likely_images(query[None]) for best, query in zip(nearest, queries, strict=True)])
    assert found >= 0.98
