"""Figures against scikit-learn and SciPy, on random and on awkward inputs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap as scipy_bootstrap
from scipy.stats import mannwhitneyu

from panendofm.scoring.classification import confusion, metrics
from panendofm.scoring.statistics import intervals

sixty = settings(max_examples=60)


@st.composite
def targets_and_scores(draw: st.DrawFn, both_classes: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Few distinct scores, so that ties are common; some far apart, so that rounding shows."""
    n = draw(st.integers(2, 40))
    targets = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if both_classes:
        targets[0], targets[1] = True, False
    values = st.sampled_from([-1e6, -1.0, 0.0, 1e-12, 2e-12, 0.5, 0.5 + 1e-9, 1.0, 1e6])
    return targets, np.array(draw(st.lists(values, min_size=n, max_size=n)))


@sixty
@given(targets_and_scores())
def test_auc_is_scikit_learns_and_the_mann_whitney_statistic(case: tuple[np.ndarray, np.ndarray]) -> None:
    targets, scores = case
    auc = metrics.roc_auc(targets, scores)[0]
    assert auc == pytest.approx(reference.roc_auc_score(targets, scores), abs=1e-12)
    u = mannwhitneyu(scores[targets], scores[~targets]).statistic
    assert auc == pytest.approx(u / (targets.sum() * (~targets).sum()), abs=1e-12)


@sixty
@given(targets_and_scores(), st.integers(0, 2**31))
def test_weighted_auc_is_scikit_learns_with_sample_weights(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    targets, scores = case
    weights = np.random.default_rng(seed).integers(0, 4, (3, len(targets))).astype(float)
    ours = metrics.weighted_roc_auc(targets[:, None], scores[:, None], weights)[:, 0]
    for row, value in zip(weights, ours, strict=True):
        if (row * targets).sum() == 0 or (row * ~targets).sum() == 0:
            assert np.isnan(value)
        else:
            assert value == pytest.approx(reference.roc_auc_score(targets, scores, sample_weight=row), abs=1e-12)


@sixty
@given(targets_and_scores())
def test_average_precision_and_roc_curve_are_scikit_learns(case: tuple[np.ndarray, np.ndarray]) -> None:
    targets, scores = case
    assert metrics.average_precision(targets, scores)[0] == pytest.approx(
        reference.average_precision_score(targets, scores), abs=1e-12
    )
    theirs = reference.roc_curve(targets, scores, drop_intermediate=False)
    false_rate, true_rate = metrics.roc_curve(targets, scores)
    np.testing.assert_allclose(false_rate, theirs[0], atol=1e-12)
    np.testing.assert_allclose(true_rate, theirs[1], atol=1e-12)


@sixty
@given(targets_and_scores(both_classes=False), targets_and_scores(both_classes=False))
def test_rates_of_a_class_are_scikit_learns(one: tuple[np.ndarray, ...], two: tuple[np.ndarray, ...]) -> None:
    n = min(len(one[0]), len(two[0]))
    truth, decision = one[0][:n], two[0][:n]
    ours = metrics.class_rates(truth[:, None], decision[:, None])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, theirs in {
            "sensitivity": reference.recall_score(truth, decision, zero_division=np.nan),
            "specificity": reference.recall_score(~truth, ~decision, zero_division=np.nan),
            "ppv": reference.precision_score(truth, decision, zero_division=np.nan),
            "npv": reference.precision_score(~truth, ~decision, zero_division=np.nan),
            "f1": reference.f1_score(truth, decision, zero_division=np.nan),
            "mcc": reference.matthews_corrcoef(truth, decision),
        }.items():
            assert ours[name][0] == pytest.approx(theirs, abs=1e-12, nan_ok=True), name


@sixty
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=50))
def test_mcc_of_several_classes_is_scikit_learns(pairs: list[tuple[int, int]]) -> None:
    truth, answer = np.array(pairs).T
    counts = confusion.confusion_matrix(truth, answer, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference.matthews_corrcoef(truth, answer)
    assert confusion.multiclass_mcc(counts) == pytest.approx(expected, abs=1e-9)


@sixty
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60))
def test_calibration_error_is_the_definition_bin_by_bin(pairs: list[tuple[float, bool]]) -> None:
    confidence, correct = np.array([p for p, _ in pairs]), np.array([c for _, c in pairs])
    expected = 0.0
    for b in range(10):
        inside = (confidence >= b / 10) & ((confidence < (b + 1) / 10) | (b == 9))
        inside &= (confidence * 10).astype(int).clip(0, 9) == b  # a value on an edge belongs where rounding puts it
        if inside.any():
            expected += inside.mean() * abs(confidence[inside].mean() - correct[inside].mean())
    on_an_edge = np.any(np.abs(confidence * 10 - np.round(confidence * 10)) < 1e-9)
    if not on_an_edge:
        assert metrics.expected_calibration_error(confidence, correct, 10) == pytest.approx(expected, abs=1e-12)
    assert metrics.brier_score(correct, confidence) == pytest.approx(
        reference.brier_score_loss(correct, confidence, labels=[False, True]), abs=1e-12
    )


def test_calibration_error_of_a_perfect_and_of_a_boastful_answer() -> None:
    assert metrics.expected_calibration_error(np.ones(4), np.ones(4, bool)) == 0.0
    assert metrics.expected_calibration_error(np.ones(4), np.array([True, False, False, False])) == 0.75


def test_a_class_without_both_kinds_is_not_evaluable_and_leaves_the_mean() -> None:
    targets = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 1]])
    scores = np.array([[3.0, 1.0, 2.0], [1.0, 2.0, 0.0], [2.0, 0.0, 1.0]])
    auc = metrics.roc_auc(targets, scores)
    assert auc[0] == 1.0 and np.isnan(auc[1]) and np.isnan(auc[2])
    assert metrics.macro(auc) == 1.0
    assert np.isnan(metrics.macro(auc[1:]))
    assert np.isnan(metrics.average_precision(targets, scores)[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        metrics.roc_auc(np.array([0, 1]), np.array([0.0, bad]))
    with pytest.raises(ValueError, match="finite"):
        metrics.average_precision(np.array([0, 1]), np.array([0.0, bad]))
    with pytest.raises(ValueError, match="between 0 and 1"):
        metrics.expected_calibration_error(np.array([bad]), np.array([True]))


def test_targets_other_than_zero_and_one_are_refused() -> None:
    with pytest.raises(ValueError, match="0 or 1"):
        metrics.roc_auc(np.array([0, 2]), np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="one shape"):
        metrics.roc_auc(np.array([0, 1]), np.array([0.0, 1.0, 2.0]))


@sixty
@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(0, 2**31))
def test_groups_are_drawn_whole(groups: list[int], seed: int) -> None:
    names = np.array(groups)
    weights = intervals.group_weights(names, 5, seed)
    for group in set(groups):
        members = weights[:, names == group]
        assert (members == members[:, :1]).all()
    per_group = np.stack([weights[:, np.flatnonzero(names == g)[0]] for g in sorted(set(groups))], axis=1)
    assert (per_group.sum(1) == len(set(groups))).all()


def test_interval_agrees_with_scipys_bootstrap_when_every_sample_is_its_own_group() -> None:
    random = np.random.default_rng(0)
    targets = random.random(150) < 0.4
    scores = targets * 0.8 + random.normal(size=150)
    weights = intervals.group_weights(np.arange(150), 3000, 1)
    ours = intervals.percentile_interval(
        intervals.macro_auc_replicates(targets[:, None], scores[:, None], weights, np.array([True]))
    )
    theirs = scipy_bootstrap(
        (targets, scores),
        lambda t, s: metrics.roc_auc(t, s)[0],
        paired=True,
        vectorized=False,
        n_resamples=3000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert ours is not None
    assert ours.low == pytest.approx(theirs.low, abs=0.01)
    assert ours.high == pytest.approx(theirs.high, abs=0.01)


def test_copies_of_a_patient_do_not_narrow_the_interval() -> None:
    random = np.random.default_rng(3)
    targets = np.repeat(random.random(40) < 0.5, 10)
    scores = targets + np.repeat(random.normal(size=40), 10)
    groups = np.repeat(np.arange(40), 10)
    width = {}
    for name, g in {"patients": groups, "images": np.arange(400)}.items():
        draws = intervals.macro_auc_replicates(
            targets[:, None], scores[:, None], intervals.group_weights(g, 500, 0), np.array([True])
        )
        interval = intervals.percentile_interval(draws)
        assert interval is not None
        width[name] = interval.high - interval.low
    assert width["patients"] > 2 * width["images"]


def test_paired_test_tells_a_better_model_from_an_equal_one() -> None:
    random = np.random.default_rng(4)
    targets = random.random(200) < 0.5
    good, poor = 1.5 * targets + random.normal(size=200), 0.1 * targets + random.normal(size=200)
    weights = intervals.group_weights(np.arange(200), 500, 0)
    draws = [
        intervals.macro_auc_replicates(targets[:, None], s[:, None], weights, np.array([True]))
        for s in (good, poor, good * 2 + 1)
    ]
    assert intervals.paired_p_value(draws[0], draws[1]) < 0.01
    assert intervals.paired_p_value(draws[1], draws[0]) == intervals.paired_p_value(draws[0], draws[1])
    assert intervals.paired_p_value(draws[0], draws[2]) == 1.0
