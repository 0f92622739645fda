"""Hierarchical k-means and what is balanced by it, on features whose scenes are known."""

from __future__ import annotations

import faiss
import numpy as np
import pytest

from data_pipeline.curate import clustering, config, mapped
from data_pipeline.curate.balance import balanced_weights, too_few_left
from data_pipeline.curate.clustering import Hierarchy, cluster
from data_pipeline.curate.config import BalanceConfig, ClusteringConfig
from data_pipeline.curate.mapped import Features
from panendofm.runtime.errors import UserError

DULL, RARE = 2000, 20


def planted(
    seed: int, noise: float, width: int = 24, dull: int = DULL, rare: int = RARE
) -> tuple[np.ndarray, np.ndarray]:
    """One scene of 2,000 frames, five of 20, in a mixed order: unit features [N, D], and the scene of each frame."""
    rng = np.random.default_rng(seed)
    scene = rng.permutation(np.repeat(np.arange(6), [dull] + [rare] * 5))
    centers = rng.normal(size=(6, width))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    features = centers[scene] + noise / np.sqrt(width) * rng.normal(size=(len(scene), width))
    return (features / np.linalg.norm(features, axis=1, keepdims=True)).astype(np.float32), scene


def clustered(features: np.ndarray, config: ClusteringConfig, seed: int) -> Hierarchy:
    """In parts of uneven sizes, as files of shards are."""
    return cluster(
        Features(np.split(features, [len(features) // 3, len(features) // 3, len(features) - 1])), config, seed
    )


def shares(weights: np.ndarray, scene: np.ndarray) -> np.ndarray:
    return np.bincount(scene, weights=weights) / weights.sum()


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_rare_scenes_come_within_twice_of_an_equal_share(seed: int, noise: float) -> None:
    features, scene = planted(seed, noise)
    assert shares(np.ones(len(scene)), scene)[1:].max() < 0.01
    hierarchy = clustered(features, ClusteringConfig(), seed)
    got = shares(balanced_weights(hierarchy, BalanceConfig()), scene)
    assert (got >= 1 / 12).all(), got
    assert (got <= 2 / 6).all(), got


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_holds_the_rare_scenes_that_an_even_one_would_miss(seed: int) -> None:
    """One frame in 20 is sampled: of an even sample's a rare scene would have a fifth of one frame."""
    features, scene = planted(seed, 0.3, dull=12_000, rare=8)
    config = ClusteringConfig(sample_frames=600, finest=60)
    rows = clustering._sample(Features([features]), config, seed)
    assert len(rows) == len(set(rows.tolist())) == 600
    assert set(scene[rows]) == set(range(6))
    hierarchy = clustered(features, config, seed)
    assert len(hierarchy.parents[0]) == len(features)
    weights = balanced_weights(hierarchy, BalanceConfig(most_uses=1000))
    assert (shares(weights, scene) >= 1 / 12).all()
    again = cluster(Features(np.split(features, range(1000, 12_000, 1000))), config, seed)
    np.testing.assert_array_equal(again.of_frames(), hierarchy.of_frames())


def test_chunks_and_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    features, _ = planted(2, 0.4)
    whole = cluster(Features([features]), ClusteringConfig(), 3)
    for module in (mapped, clustering):
        monkeypatch.setattr(module, "CHUNK", 512)
    np.testing.assert_array_equal(clustered(features, ClusteringConfig(), 3).of_frames(), whole.of_frames())
    rows = np.array([2099, 0, 700, 699, 0])
    np.testing.assert_array_equal(Features(np.split(features, [700, 1400])).take(rows), features[rows])


def test_levels_are_nested_and_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    features, _ = planted(0, 0.3)
    monkeypatch.setattr(config, "_MOST_JOINED_CENTROIDS", 50)
    hierarchy = clustered(features, ClusteringConfig(finest=200, coarsest_most=8, shrink=5), 0)
    of_frames = hierarchy.of_frames()
    assert [len(c) for c in hierarchy.centroids] == [len(set(column)) for column in of_frames.T.tolist()]
    assert of_frames.shape == (len(features), 3)
    for finer, coarser in ((0, 1), (1, 2)):
        pairs = {(a, b) for a, b in of_frames[:, [finer, coarser]].tolist()}
        assert len(pairs) == len(set(of_frames[:, finer].tolist()))  # a cluster has one parent


def test_threads_change_nothing_and_seeds_do() -> None:
    features, _ = planted(1, 0.5)
    threads = faiss.omp_get_max_threads()
    found = []
    try:
        for count in (1, 2):
            faiss.omp_set_num_threads(count)
            found.append(clustered(features, ClusteringConfig(), 5))
    finally:
        faiss.omp_set_num_threads(threads)
    np.testing.assert_array_equal(found[0].of_frames(), found[1].of_frames())
    np.testing.assert_array_equal(found[0].centroids[0], found[1].centroids[0])
    assert not np.array_equal(found[0].centroids[0], clustered(features, ClusteringConfig(), 6).centroids[0])


def test_shares_are_equal_at_every_level() -> None:
    # Coarse cluster 0 has the fine ones 0 and 1, of three frames and of one; coarse 1 has fine 2, of four.
    centroids = [np.zeros((count, 2), np.float32) for count in (3, 2)]
    hierarchy = Hierarchy([np.array([0, 0, 0, 1, 2, 2, 2, 2]), np.array([0, 0, 1])], centroids)
    weights = balanced_weights(hierarchy, BalanceConfig())
    np.testing.assert_allclose(weights, np.array([1 / 12, 1 / 12, 1 / 12, 1 / 4, *[1 / 8] * 4]) * 8)
    kept = np.array([True, True, True, False, True, False, False, False])  # fine cluster 1 has no frame left
    weights = balanced_weights(hierarchy, BalanceConfig(), kept)
    np.testing.assert_allclose(weights, np.array([1 / 6, 1 / 6, 1 / 6, 0, 1 / 2, 0, 0, 0]) * 8)


def test_without_clear_groups_no_odd_point_is_set_against_all_others() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(900, 24)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    hierarchy = clustered(features, ClusteringConfig(finest=60), 0)
    assert len(hierarchy.centroids[-1]) == len(hierarchy.centroids[0])
    size = np.bincount(hierarchy.parents[0])
    weights = balanced_weights(hierarchy, BalanceConfig(most_uses=1000))
    np.testing.assert_allclose(np.bincount(hierarchy.parents[0], weights=weights), 900 / len(size))


def test_a_single_odd_frame_does_not_fill_training() -> None:
    hierarchy = Hierarchy([np.array([0] * 99 + [1])], [np.zeros((2, 2), np.float32)])
    weights = balanced_weights(hierarchy, BalanceConfig(most_uses=10))
    assert weights[-1] == 10
    np.testing.assert_allclose(weights[:-1], 90 / 99)


def test_near_duplicates_of_a_rare_cluster_are_not_missed() -> None:
    """Of 96 frames 10 are left, of 4 one: the 4 may be seen 16 times each, the one that is left not 50 times."""
    hierarchy = Hierarchy([np.array([0] * 96 + [1] * 4)], [np.zeros((2, 2), np.float32)])
    kept = np.zeros(100, bool)
    kept[:10] = kept[96] = True
    wanting = too_few_left(hierarchy, BalanceConfig(most_uses=16), kept)
    assert wanting.tolist() == [False] * 96 + [True] * 4
    assert not too_few_left(hierarchy, BalanceConfig(most_uses=60), kept).any()


@pytest.mark.parametrize("frames", [1, 2, 3, 40])
def test_few_frames(frames: int) -> None:
    features = planted(0, 0.3)[0][:frames]
    weights = balanced_weights(clustered(features, ClusteringConfig(), 0), BalanceConfig())
    assert weights.shape == (frames,)
    assert weights.sum() == pytest.approx(frames)


def test_frames_that_are_all_the_same() -> None:
    features = np.tile(planted(0, 0.3)[0][:1], (100, 1))
    weights = balanced_weights(clustered(features, ClusteringConfig(), 0), BalanceConfig())
    np.testing.assert_allclose(weights.sum(), 100)


def test_features_that_are_not_finite_are_refused() -> None:
    features = planted(0, 0.3)[0]
    features[3, 1] = np.nan
    with pytest.raises(UserError, match="not finite"):
        clustered(features, ClusteringConfig(), 0)
