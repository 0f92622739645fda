"""Figures agree with scikit-learn; intervals and label-free figures do what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from eval_knn.report.metrics import metrics_at_k
from panendofm.records.evaluation import METRICS, decode_ranks, encode_ranks
from panendofm.scoring.classification.confusion import confusion_matrix, rank_of_truth, summarize
from panendofm.scoring.statistics.intervals import group_weights

NAMES = [f"class {i}" for i in range(8)]


def random_scores(seed: int, absent: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    labels = random.integers(0, 8, 300)
    if absent is not None:
        labels[labels == absent] = (absent + 1) % 8
    scores = random.random((300, 8)) + 0.5 * np.eye(8)[labels]
    return scores, labels


@pytest.mark.parametrize("absent", [None, 3])
def test_agree_with_scikit_learn(absent: int | None) -> None:
    scores, labels = random_scores(0, absent)
    ours = metrics_at_k(scores, labels, NAMES, np.empty((0, 300)))
    predicted = scores.argmax(axis=1)
    present = sorted(set(labels.tolist()))
    assert ours.top1 == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert ours.top5 == pytest.approx(metrics.top_k_accuracy_score(labels, scores, k=5, labels=range(8)))
    recall = metrics.recall_score(labels, predicted, labels=present, average=None)
    assert ours.balanced_accuracy == pytest.approx(recall.mean())
    assert ours.macro_f1 == pytest.approx(metrics.f1_score(labels, predicted, labels=present, average="macro"))
    assert ours.mcc == pytest.approx(metrics.matthews_corrcoef(labels, predicted))
    assert ours.confusion == metrics.confusion_matrix(labels, predicted, labels=range(8)).tolist()
    assert [ours.recall[NAMES[c]] for c in present] == pytest.approx(recall.tolist())
    assert ours.classes_judged == len(present)
    if absent is not None:
        assert ours.recall[NAMES[absent]] is None


def test_golden_top1_and_top5(golden: Path) -> None:
    data = np.load(golden / "knn_8class.npz")
    for k in (10, 20, 100, 200):
        rank = rank_of_truth(data[f"probas_k{k}"].astype(np.float64), data["test_labels"])
        assert (rank == 0).mean() == pytest.approx(float(data[f"top1_k{k}"]), abs=1e-5)
        assert (rank < 5).mean() == pytest.approx(float(data[f"top5_k{k}"]), abs=1e-5)


def test_constant_prediction_has_mcc_zero() -> None:
    confusion = confusion_matrix(np.array([0, 1, 1]), np.array([1, 1, 1]), 2)
    assert summarize(confusion)["mcc"] == 0.0


def test_equal_scores_are_ranked_by_class_number() -> None:
    scores = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert rank_of_truth(scores, np.array([1, 2])).tolist() == [1, 2]
    assert rank_of_truth(scores, np.array([0, 0])).tolist() == [0, 0]
    assert scores.argmax(axis=1).tolist() == [0, 0]


def test_ranks_survive_their_encoding() -> None:
    assert encode_ranks(np.array([0, 3, 9, 110])) == "0399"
    assert decode_ranks("0399").tolist() == [0, 3, 9, 9]


def test_intervals_cover_as_often_as_they_say() -> None:
    """A coin with p = 0.7, drawn 300 times over: about 95% of the intervals hold 0.7."""
    random = np.random.default_rng(0)
    covered, weights = 0, group_weights(np.arange(100), 150, seed=0)
    for _ in range(120):
        right = random.random(100) < 0.7
        scores = np.stack([right, ~right], axis=1).astype(np.float64)
        low, high = metrics_at_k(scores, np.zeros(100, np.int64), ["a", "b"], weights).interval("top1")
        covered += low <= 0.7 <= high
    assert 105 <= covered <= 120


def test_groups_are_drawn_whole_and_widen_the_interval() -> None:
    scores, labels = random_scores(1)
    groups = np.repeat(np.arange(30), 10)
    weights = group_weights(groups, 50, seed=0)
    assert (weights.reshape(50, 30, 10).std(axis=2) == 0).all() and weights.std() > 0
    right = np.repeat(np.arange(30) % 2 == 0, 10)  # the ten members of a group are right or wrong together
    scores = np.eye(8)[np.where(right, labels, (labels + 1) % 8)]
    single, grouped = (
        metrics_at_k(scores, labels, NAMES, group_weights(g, 300, seed=0)).interval("top1")
        for g in (np.arange(300), groups)
    )
    assert grouped[1] - grouped[0] > 2 * (single[1] - single[0])


def test_every_metric_has_an_interval_around_it() -> None:
    scores, labels = random_scores(2)
    weights = group_weights(np.arange(300), 230, seed=0)
    result = metrics_at_k(scores, labels, NAMES, weights)
    assert result == metrics_at_k(scores, labels, NAMES, group_weights(np.arange(300), 230, seed=0))
    for name in METRICS:
        low, high = result.interval(name)
        assert low < getattr(result, name) < high


def test_resampled_metrics_are_those_of_the_drawn_queries() -> None:
    scores, labels = random_scores(3)
    weights = group_weights(np.arange(300), 1, seed=5)
    drawn = np.repeat(np.arange(300), weights[0].astype(int))
    predicted = scores.argmax(axis=1)[drawn]
    low, high = metrics_at_k(scores, labels, NAMES, weights).interval("mcc")
    assert low == high == pytest.approx(metrics.matthews_corrcoef(labels[drawn], predicted))
