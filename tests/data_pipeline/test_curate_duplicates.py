"""Near-duplicates: the threshold is as precise as was asked for, and of each group one frame stays."""

from __future__ import annotations

import numpy as np
import pytest

from data_pipeline.curate import duplicates as curated_duplicates
from data_pipeline.curate.config import NearDuplicatesConfig
from data_pipeline.curate.duplicates import best_matches, choose_threshold, duplicates
from data_pipeline.curate.mapped import Features


def planted(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """400 videos: a moment shown twice within a second, and a place that looks alike in two videos, less so."""
    rng = np.random.default_rng(seed)
    moments = rng.normal(size=(400, 16))
    places = rng.normal(size=(200, 16))
    frames, videos, seconds = [], [], []
    for video in range(400):
        frames += [moments[video] + 0.05 * rng.normal(size=16) for _ in range(2)]
        frames.append(places[video // 2] + 0.2 * rng.normal(size=16))
        videos += [video] * 3
        seconds += [10.0, 10.5, 60.0]
    features = np.array(frames, np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.arange(1200) // 600, np.array(videos), np.array(seconds)


@pytest.mark.parametrize("block", [2048, 64])
def test_matches_are_those_of_brute_force(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curated_duplicates, "_BLOCK", block)
    monkeypatch.setattr(curated_duplicates, "_OTHERS", block + 9)
    features, clusters, videos, seconds = planted()
    same, other = best_matches(Features([features]), clusters, videos, seconds, 2.0)
    products = np.where(clusters[:, None] == clusters, features @ features.T, -1)
    near = (videos[:, None] == videos) & (abs(seconds[:, None] - seconds) <= 2) & ~np.eye(1200, dtype=bool)
    np.testing.assert_allclose(same, np.where(near, products, -1).max(1), atol=1e-6)
    np.testing.assert_allclose(other, np.where(videos[:, None] == videos, -1, products).max(1), atol=1e-6)
    assert (same[2::3] == -1).all()  # a minute away from the others of its video


@pytest.mark.parametrize("wanted", [0.9, 0.99])
def test_the_threshold_has_the_wanted_precision_and_is_the_lowest_such(wanted: float) -> None:
    features, clusters, videos, seconds = planted()
    same, other = best_matches(Features([features]), clusters, videos, seconds, 2.0)
    measured = choose_threshold(same, other, NearDuplicatesConfig(precision=wanted, lowest_similarity=0.5))
    assert measured.threshold is not None
    right, wrong = (np.count_nonzero(values >= measured.threshold) for values in (same, other))
    assert (right, wrong) == (measured.right, measured.wrong)
    assert right / (right + wrong) == pytest.approx(measured.precision)
    assert measured.precision >= wanted
    below = max(values[values < measured.threshold].max() for values in (same, other))
    right, wrong = (np.count_nonzero(values >= below) for values in (same, other))
    assert right / (right + wrong) < wanted
    assert right > 700


def test_no_threshold_where_none_is_precise_or_matches_are_few() -> None:
    features, clusters, videos, seconds = planted()
    config = NearDuplicatesConfig()
    for of_video, times in ((np.arange(1200), seconds), (videos, seconds * np.nan)):
        assert (
            choose_threshold(*best_matches(Features([features]), clusters, of_video, times, 2.0), config).threshold
            is None
        )
    few = best_matches(Features([features[:60]]), clusters[:60], videos[:60], seconds[:60], 2.0)
    assert choose_threshold(*few, config).threshold is None


def test_one_frame_of_each_group_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curated_duplicates, "_BLOCK", 100)
    features, clusters, _, _ = planted()
    gone = duplicates(Features([features]), clusters, 0.98)
    first, second = np.arange(0, 1200, 3), np.arange(1, 1200, 3)
    assert gone[second].mean() > 0.95
    assert not gone[first].any()
    # Chains: b is like a, c is like b but not like a; c stays, because b goes.
    angles = np.array([0.0, 0.3, 0.6])
    chain = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    assert duplicates(Features([chain]), np.zeros(3, int), float(np.cos(0.4))).tolist() == [False, True, False]
