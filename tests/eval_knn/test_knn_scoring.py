"""Class scores: the golden file, ties, small galleries, exclusions, blocks, approximate search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from eval_knn.config import SearchConfig
from eval_knn.search.groups import Groups
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


@pytest.mark.parametrize("candidates", [1, 3 * 208, 10**9])
def test_blocks_do_not_matter(golden: Path, candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.load(golden / "knn_8class.npz")
    groups = Groups(np.arange(160) % 5, np.arange(800) % 5)
    whole = nearest(data["test_features"], data["train_features"], 200, groups=groups)
    monkeypatch.setattr("eval_knn.search.neighbors._MOST_CANDIDATES", candidates)
    found = nearest(data["test_features"], data["train_features"], 200, groups=groups)
    np.testing.assert_array_equal(found.rows, whole.rows)


def with_ties(queries: int, rows: int, width: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
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


@pytest.mark.parametrize("size", [(300, 3000, 64), (7, 900, 48), (64, 230, 16)])
@pytest.mark.parametrize("grouped", [False, True])
def test_neighbors_stand_in_the_order_of_the_definition(size: tuple[int, int, int], grouped: bool) -> None:
    queries, gallery = with_ties(*size)
    groups = Groups(np.arange(size[0]) % 40, np.arange(size[1]) % 40) if grouped else None
    found = nearest(queries, gallery, 200, groups=groups)
    exact = (queries.astype(np.float64) @ gallery.astype(np.float64).T).round(9)
    if groups is not None:
        exact[groups.queries[:, None] == groups.gallery[None, :]] = -np.inf
    np.testing.assert_array_equal(found.rows, np.argsort(-exact, axis=1, kind="stable")[:, :200])


@pytest.mark.parametrize("size", [1, 3, 50, 150, 201])
def test_gallery_smaller_than_k(golden: Path, size: int) -> None:
    data = np.load(golden / "knn_8class.npz")
    gallery, labels = data["train_features"][:size], data["train_labels"][:size]
    scored = class_scores(data["test_features"], gallery, labels, 8)
    for k in KS:
        expected = formula(data["test_features"], gallery, labels, 8, k)
        np.testing.assert_allclose(scored.scores[k], expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(scored.scores[200].sum(axis=1), 1, atol=1e-6)


def test_ties_go_to_the_lower_row() -> None:
    queries, gallery, labels = tied_features()
    scored = class_scores(queries, gallery, labels, 5)
    for k in KS:
        np.testing.assert_allclose(scored.scores[k], formula(queries, gallery, labels, 5, k), rtol=0, atol=1e-5)


def test_collapsed_features() -> None:
    """All rows alike: the first k rows of the gallery are the neighbors of everything."""
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
    scored = class_scores(queries, gallery, labels, 5, groups=Groups(groups_q, groups_g))
    assert not forbidden[np.arange(40)[:, None], scored.neighbors.rows].any()
    for k in KS:
        expected = formula(queries, gallery, labels, 5, k, forbidden=forbidden)
        np.testing.assert_allclose(scored.scores[k], expected, rtol=0, atol=1e-5)


def test_all_but_a_few_excluded() -> None:
    queries, gallery, labels = tied_features(2)
    of_gallery = np.ones(700, np.int64)
    of_gallery[5:8] = 0
    groups = Groups(np.ones(40, np.int64), of_gallery)
    forbidden = groups.queries[:, None] == groups.gallery[None, :]
    scored = class_scores(queries, gallery, labels, 5, groups=groups)
    assert set(scored.neighbors.rows.ravel()) == {5, 6, 7, -1}
    np.testing.assert_allclose(scored.scores[10], formula(queries, gallery, labels, 5, 10, 200, forbidden), atol=1e-5)
    # With one group only, a query has no neighbor at all.
    alone = class_scores(queries, gallery, labels, 5, groups=Groups(groups.queries, np.ones(700, np.int64)))
    assert (alone.neighbors.rows == -1).all() and not alone.scores[10].any()


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_index_says_its_recall(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(0)
    centers = random.standard_normal((20, 32))
    gallery = unit_rows(centers[random.integers(0, 20, 6000)] + 0.4 * random.standard_normal((6000, 32)))
    queries = unit_rows(centers[random.integers(0, 20, 50)] + 0.4 * random.standard_normal((50, 32)))
    config = SearchConfig(approximate_above=5000, approximate_index=kind)  # type: ignore[arg-type]
    found = nearest(queries, gallery, 20, config)
    truth = nearest(queries, gallery, 20)
    assert truth.recall is None
    by_hand = np.mean([len(set(a) & set(b)) / 20 for a, b in zip(found.rows, truth.rows, strict=True)])
    assert found.recall == pytest.approx(by_hand) and by_hand > 0.9
    assert f"recall {by_hand:.4f}" in capsys.readouterr().out
