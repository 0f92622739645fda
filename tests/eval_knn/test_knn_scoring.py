"""Class scores: the golden file, ties, small galleries, exclusions, blocks, approximate search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from eval_knn.config import SearchConfig
from eval_knn.search.block_search import Exclusions
from eval_knn.search.neighbors import nearest, unit_rows
from eval_knn.search.vote import class_scores

KS = (10, 20, 100, 200)


def formula(
    queries: NDArray[np.float32],
    gallery: NDArray[np.float32],
    labels: NDArray[np.int64],
    classes: int,
    k: int,
    largest: int = 200,
    forbidden: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """The definition, written down plainly in double precision; among equal similarities the lower row comes first."""
    result = np.zeros((len(queries), classes))
    for i, query in enumerate(queries.astype(np.float64)):
        similarity = gallery.astype(np.float64) @ query
        allowed = np.arange(len(gallery)) if forbidden is None else np.flatnonzero(~forbidden[i])
        order = sorted(allowed.tolist(), key=lambda row: (-round(float(similarity[row]), 9), row))[:largest]
        weights = np.exp(similarity[order] / 0.07)
        weights /= weights.sum()
        for row, weight in list(zip(order, weights, strict=True))[:k]:
            result[i, labels[row]] += weight
    return result


def tied_features(seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """Few distinct directions, each many times over and in shuffled classes: ties across every k."""
    random = np.random.default_rng(seed)
    directions = unit_rows(random.standard_normal((9, 24)).astype(np.float32))
    gallery = directions[random.integers(0, 9, 700)]
    queries = unit_rows((directions[random.integers(0, 9, 40)] + 0.3 * random.standard_normal((40, 24))).astype("f4"))
    return queries, gallery, random.integers(0, 5, 700)


def test_golden(golden: Path) -> None:
    data = np.load(golden / "knn_8class.npz")
    scored = class_scores(data["test_features"], data["train_features"], data["train_labels"], 8)
    for k in KS:
        np.testing.assert_allclose(scored.scores[k], data[f"probas_k{k}"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("blocks", [(2048, 8192), (7, 33), (160, 1)])
def test_blocks_do_not_matter(golden: Path, blocks: tuple[int, int]) -> None:
    data = np.load(golden / "knn_8class.npz")
    config = SearchConfig(query_block=blocks[0], gallery_block=blocks[1])
    found = nearest(data["test_features"], data["train_features"], 200, config)
    whole = nearest(data["test_features"], data["train_features"], 200)
    np.testing.assert_array_equal(found.rows, whole.rows)


@pytest.mark.parametrize("size", [1, 3, 50, 150, 201])
def test_gallery_smaller_than_k(golden: Path, size: int) -> None:
    data = np.load(golden / "knn_8class.npz")
    gallery, labels = data["train_features"][:size], data["train_labels"][:size]
    scored = class_scores(data["test_features"], gallery, labels, 8)
    for k in KS:
        expected = formula(data["test_features"], gallery, labels, 8, k)
        np.testing.assert_allclose(scored.scores[k], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(scored.scores[200].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("blocks", [(2048, 8192), (16, 64)])
def test_ties_go_to_the_lower_row(blocks: tuple[int, int]) -> None:
    queries, gallery, labels = tied_features()
    config = SearchConfig(query_block=blocks[0], gallery_block=blocks[1])
    scored = class_scores(queries, gallery, labels, 5, search=config)
    for k in KS:
        np.testing.assert_allclose(scored.scores[k], formula(queries, gallery, labels, 5, k), rtol=0, atol=1e-5)


def test_collapsed_features() -> None:
    """All rows alike: the first k rows of the gallery are the neighbours of everything."""
    queries, gallery = np.full((30, 16), 2.0, np.float32), np.full((500, 16), 2.0, np.float32)
    found = nearest(unit_rows(queries), unit_rows(gallery), 200)
    np.testing.assert_array_equal(found.rows, np.tile(np.arange(200), (30, 1)))


def test_tie_hidden_by_rounding() -> None:
    """Two rows that differ by less than single precision shows are still ordered by their true similarity."""
    query = np.zeros((1, 64), np.float32)
    query[0, 0] = 1
    gallery = np.zeros((3, 64), np.float32)
    gallery[:, 0] = [0.5, np.nextafter(np.float32(0.5), np.float32(1)), 0.4]
    assert nearest(query, gallery, 1).rows[0, 0] == 1


def test_excluded_pairs_never_meet() -> None:
    queries, gallery, labels = tied_features(1)
    groups_q, groups_g = np.arange(40) % 6, np.arange(700) % 6
    forbidden = groups_q[:, None] == groups_g[None, :]
    excluded = Exclusions(*[side.astype(np.int64) for side in np.nonzero(forbidden)])
    for config in (SearchConfig(), SearchConfig(query_block=11, gallery_block=100)):
        scored = class_scores(queries, gallery, labels, 5, search=config, excluded=excluded)
        assert not forbidden[np.arange(40)[:, None], scored.neighbours.rows].any()
        for k in KS:
            expected = formula(queries, gallery, labels, 5, k, forbidden=forbidden)
            np.testing.assert_allclose(scored.scores[k], expected, rtol=0, atol=1e-5)


def test_all_but_a_few_excluded() -> None:
    queries, gallery, labels = tied_features(2)
    forbidden = np.ones((40, 700), bool)
    forbidden[:, 5:8] = False
    forbidden[0] = True  # this query has no neighbour at all
    excluded = Exclusions(*[side.astype(np.int64) for side in np.nonzero(forbidden)])
    scored = class_scores(queries, gallery, labels, 5, excluded=excluded)
    assert set(scored.neighbours.rows[1:].ravel()) == {5, 6, 7, -1}
    assert not scored.scores[10][0].any()
    np.testing.assert_allclose(
        scored.scores[10][1:], formula(queries, gallery, labels, 5, 10, 200, forbidden)[1:], atol=1e-5
    )


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_index_says_its_recall(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    centres = random.standard_normal((20, 32))
    gallery = unit_rows(centres[random.integers(0, 20, 6000)] + 0.4 * random.standard_normal((6000, 32)))
    queries = unit_rows(centres[random.integers(0, 20, 50)] + 0.4 * random.standard_normal((50, 32)))
    config = SearchConfig(approximate_above=5000, approximate_index=kind)  # type: ignore[arg-type]
    found = nearest(queries, gallery, 20, config)
    truth = nearest(queries, gallery, 20)
    assert truth.recall is None
    by_hand = np.mean([len(set(a) & set(b)) / 20 for a, b in zip(found.rows, truth.rows, strict=True)])
    assert found.recall == pytest.approx(by_hand) and by_hand > 0.9
    assert f"recall {by_hand:.4f}" in capsys.readouterr().out
