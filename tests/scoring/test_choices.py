"""Figures of multiple-choice answers and k-center, on worked examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from panendofm.scoring.answers.choices import (
    RotatedQuestion,
    accuracy_of,
    chance_level,
    class_f1,
    image_gain,
    letter_before_rotation,
    macro_average,
    robustness,
    rotated,
    rotation_metrics,
)
from panendofm.scoring.features.k_center import covering_radius, k_center, outliers
from panendofm.scoring.statistics.binomial import wilson
from panendofm.scoring.statistics.intervals import group_weights, paired_p_value, percentile_interval


@pytest.fixture(scope="module")
def cases(golden: Path) -> Any:
    return json.loads((golden / "metrics_endobench.json").read_text(encoding="utf-8"))


def test_scoring(cases: Any) -> None:
    items, expected = cases["scoring"]["items"], cases["scoring"]["expected"]
    correct = np.array([i["correct"] for i in items], float)
    options = np.array([i["n_options"] for i in items])
    groups = np.unique([i["group"] for i in items], return_inverse=True)[1]
    tasks = [i["task"] for i in items]
    for task, figures in expected["per_task"].items():
        own = np.array([t == task for t in tasks])
        found = accuracy_of(correct[own], options[own])
        assert (found.n, found.accuracy, found.chance, found.chance_corrected) == pytest.approx(
            (figures["n"], figures["accuracy"], figures["chance"], figures["chance_corrected"]), abs=1e-9
        )
        assert found.interval is None
    whole = accuracy_of(correct, options, group_weights(groups, 2000, 0))
    assert whole.accuracy == pytest.approx(expected["micro"], abs=1e-9)
    assert whole.chance == pytest.approx(expected["chance"], abs=1e-9)
    assert whole.chance_corrected == pytest.approx(expected["chance_corrected"], abs=1e-9)
    assert whole.interval == pytest.approx(expected["bootstrap"]["accuracy"], abs=1e-9)
    assert whole.chance_corrected_interval == pytest.approx(expected["bootstrap"]["chance_corrected"], abs=1e-9)
    assert macro_average(correct, tasks) == pytest.approx(expected["macro"], abs=1e-9)
    assert wilson(int(correct.sum()), len(correct)) == pytest.approx(expected["wilson_95_of_micro"], abs=1e-9)


def test_published_averages_are_micro_averages(cases: Any) -> None:
    published = cases["published"]
    counts = published["task_questions"]
    assert sum(counts.values()) == published["total"] == 6832
    assert len(published["rows"]) == 13
    for row in published["rows"]:
        tasks = [task for task, n in counts.items() for _ in range(n)]
        right = np.concatenate([np.arange(n) < row["correct"][task] for task, n in counts.items()]).astype(float)
        assert 100 * accuracy_of(right, np.full(len(right), 4)).accuracy == pytest.approx(
            row["micro_average"], abs=6e-3
        )
        assert round(100 * right.mean(), 2) == pytest.approx(row["printed_average"], abs=0.0101)
        # The printed percentages are rounded, the counts are not.
        assert 100 * macro_average(right, tasks) == pytest.approx(row["macro_average"], abs=6e-3)


def test_chance_and_blind(cases: Any) -> None:
    assert chance_level(cases["chance"]["n_options"]) == pytest.approx(cases["chance"]["expected"], abs=1e-9)
    blind = cases["blind"]
    gain, above = image_gain(blind["acc_image"], blind["acc_blind"], blind["chance"])
    assert gain == pytest.approx(blind["expected"]["image_gain"], abs=1e-9)
    assert above == pytest.approx(blind["expected"]["blind_above_chance"], abs=1e-9)
    assert image_gain(0.5, 0.1, 0.25)[1] == 0


def test_rotation(cases: Any) -> None:
    items, expected = cases["circular"]["items"], cases["circular"]["expected"]
    questions = []
    for item in items:
        answer = "ABCD"[item["options"].index(item["answer"])]
        question = RotatedQuestion(4, answer, tuple(item["letters_by_rotation"]))
        assert [int(right) for right in question.right] == item["right_by_rotation"]
        texts = [
            None if letter is None else rotated(item["options"], r)["ABCD".index(letter)]
            for r, letter in enumerate(item["letters_by_rotation"])
        ]
        assert texts == item["chosen_texts"]
        assert [None if c is None else item["options"]["ABCD".index(c)] for c in question.chosen] == texts
        questions.append(question)
    found = rotation_metrics(questions)
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-9), name
    assert letter_before_rotation("A", 3, 4) == "D"


def test_robustness(cases: Any) -> None:
    case = cases["robustness"]
    found = robustness(np.array(case["clean"], float), np.array(case["perturbed"], float), case["chance"])
    for name, value in case["expected"].items():
        assert getattr(found, name) == pytest.approx(value, abs=1e-9), name


def test_paired_bootstrap_over_groups(cases: Any) -> None:
    case, expected = cases["paired_by_group"], cases["paired_by_group"]["expected"]
    a, b = np.array(case["a"]), np.array(case["b"])
    weights = group_weights(np.array(case["groups"]), 2000, 0)
    draws = [(weights @ x) / weights.sum(axis=1) for x in (a, b)]
    assert a.mean() - b.mean() == pytest.approx(expected["difference"], abs=1e-9)
    assert percentile_interval(draws[0] - draws[1]) == pytest.approx(expected["bootstrap_difference_95"], abs=1e-9)
    assert paired_p_value(*draws) == pytest.approx(expected["bootstrap_p"], abs=1e-9)


def test_readers_are_averaged_task_by_task(cases: Any) -> None:
    readers = cases["human"]["readers"]
    for task, value in cases["human"]["expected"].items():
        assert np.mean([reader[task] for reader in readers.values()]) == pytest.approx(value, abs=1e-9)


def test_k_center(cases: Any) -> None:
    case = cases["k_center"]
    features, groups = np.array(case["features"]), np.array(case["groups"])
    for expected in case["expected"]:
        found = k_center(features, expected["k"], groups if expected["use_groups"] else None)
        assert found.indices == expected["chosen"]
        assert found.radius == pytest.approx(expected["radius"], abs=1e-9)
        assert covering_radius(features, np.array(found.indices)) == pytest.approx(found.radius, abs=1e-12)


def test_k_center_takes_equal_rows_by_index_and_all_when_asked_for_more() -> None:
    assert k_center(np.ones((4, 3)), 9).indices == [0, 1, 2, 3]
    assert k_center(np.zeros((0, 3)), 2).indices == []


def test_outliers_are_cut_only_from_large_sets() -> None:
    random = np.random.default_rng(0)
    rows = np.array([1.0, 0, 0, 0]) + 0.1 * random.normal(size=(40, 4))
    rows[7] = [-1, 0, 0, 0]
    assert np.flatnonzero(outliers(rows)).tolist() == [7]
    assert not outliers(rows[:19]).any()


def test_classes(golden: Path) -> None:
    case = json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))["diagnosis_q3"]
    f1 = class_f1(case["gold"], case["answers"])
    assert f1 == pytest.approx(case["expected"]["f1"], abs=1e-9)
    assert np.mean(list(f1.values())) == pytest.approx(case["expected"]["macro_f1"], abs=1e-9)
