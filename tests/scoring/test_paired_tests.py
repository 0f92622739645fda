"""Paired tests and corrections, on worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.scoring.statistics.intervals import group_weights, percentile_interval
from panendofm.scoring.statistics.paired_tests import benjamini_hochberg, group_sums, holm, mcnemar, sign_flip


@pytest.fixture(scope="module")
def endobench(golden: Path) -> Any:
    return json.loads((golden / "metrics_endobench.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def gibench(golden: Path) -> Any:
    return json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))


def test_mcnemar(endobench: Any) -> None:
    assert len(endobench["mcnemar_exact"]) == 6
    for case in endobench["mcnemar_exact"]:
        assert mcnemar(case["a_right_b_wrong"], case["a_wrong_b_right"]) == pytest.approx(case["p"], abs=1e-9)


def test_sign_flip_of_groups(endobench: Any) -> None:
    case = endobench["paired_by_group"]
    difference = np.array(case["a"]) - np.array(case["b"])
    sums = group_sums(difference, np.array(case["groups"]))
    assert sums.tolist() == case["expected"]["group_sums"]
    assert sign_flip(sums) == case["expected"]["sign_flip_exact_p"]


def test_sign_flip_of_real_readers(gibench: Any) -> None:
    cases = gibench["sign_flip"]
    for case in cases["small"]:
        assert sign_flip(case["differences"]) == pytest.approx(case["p"], abs=1e-12)
    found = {}
    for case in cases["real"]:
        difference = np.array(case["junior"]) - np.array(case["trainee"])
        assert difference.mean() == pytest.approx(case["expected"]["mean_difference"], abs=1e-9)
        found[case["metric"]] = sign_flip(difference)
        assert found[case["metric"]] == pytest.approx(case["expected"]["sign_flip_exact_p"], abs=1e-9)
        assert (found[case["metric"]] < 0.05) == case["published_significant"]
        weights = group_weights(np.arange(len(difference)), 2000, 0)
        interval = percentile_interval((weights @ difference) / weights.sum(axis=1))
        assert interval == pytest.approx(case["expected"]["bootstrap_95"], abs=1e-9)
    assert sorted(round(p, 4) for p in found.values()) == [0.0046, 0.066, 0.2339]


def test_sign_flip_by_draws_agrees_with_all_patterns() -> None:
    values = np.random.default_rng(5).normal(0.2, 1, 18)
    exact = sign_flip(values)
    # Three units that hardly count: above the limit for all patterns, but nearly the same distribution.
    many = np.concatenate([values, [1e-12] * 3])
    assert sign_flip(many, draws=40_000) == pytest.approx(exact, abs=0.01)
    assert sign_flip(np.ones(40)) == pytest.approx(1 / 100_001)


def test_corrections(endobench: Any, gibench: Any) -> None:
    case = endobench["corrections"]
    assert holm(case["p"]) == pytest.approx(case["holm"], abs=1e-9)
    assert benjamini_hochberg(case["p"]) == pytest.approx(case["benjamini_hochberg"], abs=1e-9)
    assert holm(gibench["holm"]["p"]) == pytest.approx(gibench["holm"]["expected"], abs=1e-9)
    # Sorted 0.01, 0.02, 0.03, 0.4 are multiplied by 4, 3, 2, 1 and may not fall: 0.04, 0.06, 0.06, 0.4.
    adjusted = holm({"a": 0.03, "b": 0.01, "c": 0.4, "d": 0.02, "e": float("nan")})
    assert {k: round(v, 9) for k, v in adjusted.items() if k != "e"} == {"a": 0.06, "b": 0.04, "c": 0.4, "d": 0.06}
    assert np.isnan(adjusted["e"])
