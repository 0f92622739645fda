"""Agreement of raters, against Shrout and Fleiss' table and worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.scoring.statistics.agreement import intraclass, krippendorff_ordinal, pair_agreement


@pytest.fixture(scope="module")
def cases(golden: Path) -> Any:
    return json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))


def assert_icc(found: Any, expected: dict[str, Any]) -> None:
    names = {"MSR": "msr", "MSC": "msc", "MSE": "mse"}
    for name, value in expected.items():
        attribute = names.get(name, name)
        if hasattr(found, attribute):
            assert getattr(found, attribute) == pytest.approx(value, rel=1e-6, abs=1e-9), name


def test_shrout_and_fleiss(cases: Any) -> None:
    case = cases["agreement"]["shrout_fleiss"]
    assert_icc(intraclass(case["ratings"]), case["expected"])


def test_judge_against_experts(cases: Any) -> None:
    case = cases["agreement"]["judge_against_experts"]
    found = pair_agreement(case["judge"], case["experts"])
    assert_icc(found.icc, case["expected"])
    for name in (
        "pearson", "spearman", "kendall_b", "quadratic_weighted_kappa", "krippendorff_ordinal", "exact_agreement",
        "within_one", "bias",
    ):  # fmt: skip
        assert getattr(found, name) == pytest.approx(case["expected"][name], abs=1e-9), name


def test_pooling_dimensions_invents_agreement(cases: Any) -> None:
    case = cases["pooled_icc_trap"]
    a, b = np.array(case["a"]), np.array(case["b"])
    own = [intraclass(np.stack([a[d::5], b[d::5]], axis=1)).icc_2_1 for d in range(5)]
    assert own == pytest.approx(case["expected"]["per_dimension"], abs=1e-9)
    pooled = intraclass(np.stack([a, b], axis=1)).icc_2_1
    assert pooled == pytest.approx(case["expected"]["pooled"], abs=1e-9)
    assert max(own) < 0.1 and pooled > 0.6


def test_likert(cases: Any) -> None:
    case, expected = cases["likert"], cases["likert"]["expected"]
    totals = {reader: np.mean(rows, axis=1) for reader, rows in case["ratings"].items()}
    for reader, values in totals.items():
        assert values == pytest.approx(expected["total_by_answer"][reader], abs=1e-9)
    means = [values.mean() for values in totals.values()]
    assert np.mean(means) == pytest.approx(expected["group_mean"], abs=1e-9)
    assert np.std(means, ddof=1) == pytest.approx(expected["sd_over_reader_means"], abs=1e-9)
    every = np.concatenate(list(totals.values()))
    assert np.std(every, ddof=1) == pytest.approx(expected["sd_over_all_answers"], abs=1e-9)


def test_missing_ratings_and_constant_raters() -> None:
    assert krippendorff_ordinal([[1, 1, np.nan], [3, np.nan, 3], [5, 5, 5], [2, np.nan, np.nan]]) == 1.0
    constant = pair_agreement([3, 3, 3], [1, 2, 3])
    assert np.isnan(constant.pearson)
    with pytest.raises(ValueError, match="two texts"):
        intraclass([[1, 2]])
