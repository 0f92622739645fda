"""Who searches changes the time and nothing else; which is faster is measured once and remembered."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from eval_knn.config import SearchConfig
from eval_knn.search import backend as search_backend
from eval_knn.search.backend import choices_file, faster_backend
from eval_knn.search.block_search import search_by_faiss, search_by_torch
from eval_knn.search.neighbors import nearest, unit_rows
from eval_knn.search.vote import class_scores
from panendofm.runtime.files import read_json_object

KS = (10, 20, 100, 200)
Floats = NDArray[np.float32]


def with_ties(queries: int, rows: int, width: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Random rows, of which every third stands there again elsewhere, and every tenth again but for rounding noise."""
    random = np.random.default_rng(seed)
    gallery = random.standard_normal((rows, width)).astype(np.float32)
    again = random.permutation(rows)
    gallery[again[: rows // 3]] = gallery[again[rows // 3 : 2 * (rows // 3)]]
    gallery = unit_rows(gallery)
    close = again[-(rows // 10) :]
    gallery[close] = gallery[np.roll(close, 1)] * (1 + np.float32(3e-8))
    return unit_rows(
        gallery[random.integers(0, rows, queries)] + 0.2 * random.standard_normal((queries, width))
    ), gallery


def by_definition(queries: Floats, gallery: Floats, k: int) -> NDArray[np.int64]:
    exact = (queries.astype(np.float64) @ gallery.astype(np.float64).T).round(9)
    return np.argsort(-exact, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("backend", ["torch", "faiss"])
@pytest.mark.parametrize("size", [(300, 3000, 64), (7, 900, 48), (64, 230, 16)])
def test_neighbours_stand_in_the_order_of_the_definition(backend: str, size: tuple[int, int, int]) -> None:
    queries, gallery = with_ties(*size)
    found = nearest(queries, gallery, 200, SearchConfig(backend=backend))  # type: ignore[arg-type]
    np.testing.assert_array_equal(found.rows, by_definition(queries, gallery, 200))


def test_either_backend_gives_equal_scores(golden: Path) -> None:
    data = np.load(golden / "knn_8class.npz")
    tied, tied_gallery = with_ties(200, 4000, 32, seed=1)
    tied_labels = np.arange(4000) % 8
    for queries, gallery, labels in (
        (data["test_features"], data["train_features"], data["train_labels"]),
        (tied, tied_gallery, tied_labels),
    ):
        scored = {
            word: class_scores(queries, gallery, labels, 8, KS, search=SearchConfig(backend=word))  # type: ignore[arg-type]
            for word in ("torch", "faiss")
        }
        ours, theirs = scored["torch"].neighbours, scored["faiss"].neighbours
        np.testing.assert_array_equal(ours.rows, theirs.rows)
        np.testing.assert_allclose(ours.similarities, theirs.similarities, rtol=0, atol=1e-6)
        for k in KS:
            np.testing.assert_allclose(scored["torch"].scores[k], scored["faiss"].scores[k], rtol=0, atol=1e-5)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(search_backend, "_remembered", {})
    yield tmp_path


def searches(asked: list[str]) -> dict[str, search_backend.Search]:
    def slow(queries: Floats, gallery: Floats) -> None:
        asked.append("torch")
        for _ in range(3):
            search_by_torch(queries, gallery, 50, 1024, 2048)
            search_by_faiss(queries, gallery, 50)

    def fast(queries: Floats, gallery: Floats) -> None:
        asked.append("faiss")
        search_by_faiss(queries[:8], gallery[:500], 50)

    return {"torch": slow, "faiss": fast}


def test_the_faster_one_is_measured_once_and_remembered(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, gallery = with_ties(700, 6000, 32)
    asked: list[str] = []
    assert faster_backend(searches(asked), queries, gallery, 50) == "faiss"
    assert asked.count("faiss") == asked.count("torch") == 3
    assert faster_backend(searches(asked), queries, gallery, 50) == "faiss" and len(asked) == 6
    monkeypatch.setattr(search_backend, "_remembered", {})  # as in another process
    assert faster_backend(searches(asked), queries[:690], gallery[:5900], 50) == "faiss" and len(asked) == 6
    faster_backend(searches(asked), queries[:, :16].copy(), gallery[:, :16].copy(), 50)  # another size, another choice
    assert len(asked) == 12 and len(read_json_object(choices_file())) == 2


def test_what_a_first_search_costs_does_not_decide(cache: Path) -> None:
    queries, gallery = with_ties(700, 6000, 32)
    seconds = {"faiss": [1.2, 0.0, 0.0], "torch": [0.0, 0.5, 0.5]}

    def waiting(own: list[float]) -> search_backend.Search:
        return lambda queries, gallery: time.sleep(own.pop(0))

    searched = {name: waiting(own) for name, own in seconds.items()}
    assert faster_backend(searched, queries, gallery, 50) == "faiss"


def test_a_damaged_memory_is_measured_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    queries, gallery = with_ties(700, 6000, 32)
    choices_file().parent.mkdir(parents=True)
    choices_file().write_text("{")
    asked: list[str] = []
    assert faster_backend(searches(asked), queries, gallery, 50) == "faiss" and len(asked) == 6
    assert list(read_json_object(choices_file()).values()) == ["faiss"]


def test_auto_searches_right_and_small_searches_are_not_measured(cache: Path) -> None:
    queries, gallery = with_ties(700, 6000, 32)
    small = nearest(queries[:50], gallery, 20)
    assert not choices_file().exists()
    found = nearest(queries, gallery, 20)
    assert choices_file().is_file()
    np.testing.assert_array_equal(found.rows, by_definition(queries, gallery, 20))
    np.testing.assert_array_equal(small.rows, found.rows[:50])
