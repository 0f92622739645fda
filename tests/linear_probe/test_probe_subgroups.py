"""Subgroups, leave-one-dataset-out and errors, against computations that share no code with ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from panendofm.atlas import TEST, TRAIN, VALIDATION, Level, Task
from panendofm.linear_probe.config import GridConfig, ProbeConfig, TrainingConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import train_probe
from panendofm.linear_probe.results.errors import confused_pairs, tree_errors
from panendofm.linear_probe.results.left_out import leave_one_dataset_out, sides_without
from panendofm.linear_probe.results.subgroups import subgroup_aucs
from panendofm.scoring.classification.metrics import weighted_roc_auc
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import value_and_replicate_weights

BOOTSTRAP = BootstrapConfig(replicates=60, seed=7)


def draws_of_groups(groups: NDArray[np.int64]) -> list[NDArray[np.float64]]:
    """How often each image is drawn in each replicate: written anew, from the definition."""
    random = np.random.default_rng(BOOTSTRAP.seed)
    names = sorted(set(groups.tolist()))
    result = []
    for _ in range(BOOTSTRAP.replicates):
        times = dict(zip(names, random.multinomial(len(names), [1 / len(names)] * len(names)), strict=True))
        result.append(np.array([times[group] for group in groups.tolist()], float))
    return result


def macro_auc(
    targets: NDArray[np.bool_], logits: NDArray[np.float64], weight: NDArray[np.float64], classes: list[int]
) -> float:
    """scikit-learn's, class by class; classes that the weights leave without a kind don't count."""
    values = []
    drawn = weight > 0
    for c in classes:
        if 0 < targets[drawn, c].sum() < drawn.sum():
            values.append(roc_auc_score(targets[drawn, c], logits[drawn, c], sample_weight=weight[drawn]))
    return float(np.mean(values)) if values else float("nan")


def interval(values: list[float]) -> list[float]:
    known = [value for value in values if not np.isnan(value)]
    return np.quantile(known, [0.025, 0.975]).tolist()


def test_subgroups_agree_with_an_independent_computation() -> None:
    random = np.random.default_rng(1)
    n = 90
    groups = random.integers(0, 30, n)
    label = random.integers(0, 4, n)
    label[:20] = random.integers(0, 2, 20)  # the first subgroup has two of the four classes
    targets = np.eye(4, dtype=bool)[label]
    logits = np.eye(4)[label] + random.normal(size=(n, 4)).round(1)  # with ties
    traits = [
        (("dataset", "few" if i < 20 else "many"), ("quality", "poor" if i % 7 == 0 else "good"), ("country", "Norway"))
        for i in range(n)
    ]
    evaluable = np.array([True, True, True, False])
    weights = value_and_replicate_weights(groups, BOOTSTRAP)
    aucs = weighted_roc_auc(targets, logits, weights)
    found = subgroup_aucs(targets, logits, evaluable, groups, traits, weights, aucs, BOOTSTRAP.confidence)
    # One country tells nothing apart.
    assert [(one.kind, one.name) for one in found] == [
        ("dataset", "few"), ("dataset", "many"), ("quality", "good"), ("quality", "poor"),
    ]  # fmt: skip
    for one in found:
        rows = np.array([(one.kind, one.name) in own for own in traits])
        classes = [c for c in range(3) if 0 < targets[rows, c].sum() < rows.sum()]
        assert one.classes == len(classes) and one.images == rows.sum()
        assert one.groups == len(set(groups[rows].tolist()))
        inside = macro_auc(targets[rows], logits[rows], np.ones(rows.sum()), classes)
        whole = macro_auc(targets, logits, np.ones(n), classes)
        assert one.auc.value == pytest.approx(inside, abs=1e-9)
        assert one.difference.value == pytest.approx(inside - whole, abs=1e-9)
        drawn = draws_of_groups(groups)
        parts = [macro_auc(targets[rows], logits[rows], weight[rows], classes) for weight in drawn]
        wholes = [macro_auc(targets, logits, weight, classes) for weight in drawn]
        assert [one.auc.low, one.auc.high] == pytest.approx(interval(parts), abs=1e-9)
        apart = [a - b for a, b in zip(parts, wholes, strict=True)]
        assert [one.difference.low, one.difference.high] == pytest.approx(interval(apart), abs=1e-9)


def test_leaving_a_dataset_out_agrees_with_an_independent_computation() -> None:
    random = np.random.default_rng(2)
    n = 120
    label = np.arange(n) % 3
    targets = np.eye(3, dtype=bool)[label]
    features = torch.tensor(np.eye(3)[label] + 0.8 * random.normal(size=(n, 3)), dtype=torch.float32)
    datasets: list[tuple[str, ...]] = [("a",) if i < 40 else ("b",) for i in range(n)]
    datasets[39] = ("a", "b")  # an equal file in both
    groups = np.arange(n)
    groups[60] = groups[5]  # a near-duplicate in the other dataset
    sides = np.array([(TRAIN, TRAIN, VALIDATION, TEST)[i // 3 % 4] for i in range(n)])
    task = Task("t", "t", ("x", "y", "z"), (Level("", 0, 3),), True, np.arange(n), targets)
    config = replace(
        ProbeConfig(),
        bootstrap=BOOTSTRAP,
        grid=GridConfig(learning_rates=[0.01], training=TrainingConfig(max_epochs=5)),
    )
    columns = [Columns("cls", 0, 3)]
    found = leave_one_dataset_out(task, sides, groups, datasets, features, columns, config)
    assert [one.dataset for one in found] == ["a", "b"]
    for one in found:
        inside = np.array([one.dataset in own for own in datasets])
        near = np.array([groups[i] in set(groups[inside].tolist()) for i in range(n)]) & ~inside
        assert near.sum() == 1
        own = sides_without(inside, sides, groups)
        assert (own[inside] == TEST).all() and (own[near] == -1).all()
        rest = ~inside & ~near
        assert np.array_equal(own[rest] == VALIDATION, sides[rest] == VALIDATION)
        assert one.training_images == (rest & (sides != VALIDATION)).sum()
        assert (one.images, one.classes) == (inside.sum(), 3)
        head = train_probe(task, own, features, columns, "published", config.grid).head
        logits = head.logits(features[torch.from_numpy(inside)])
        value = macro_auc(targets[inside], logits, np.ones(inside.sum()), [0, 1, 2])
        assert one.auc.value == pytest.approx(value, abs=1e-9)
        drawn = draws_of_groups(groups[inside])
        values = [macro_auc(targets[inside], logits, weight, [0, 1, 2]) for weight in drawn]
        assert [one.auc.low, one.auc.high] == pytest.approx(interval(values), abs=1e-9)


TREE = Task(
    name="tree",
    title="tree",
    classes=("stomach", "colon", "normal", "disease", "a", "b", "c", "d"),
    levels=(Level("region", 0, 2), Level("category", 2, 4), Level("finding", 4, 8)),
    exclusive=False,
    rows=np.arange(6),
    targets=np.zeros((6, 8), bool),
    ancestors=(("stomach", "normal"), ("stomach", "disease"), ("stomach", "disease"), ("colon", "disease")),
)


def tree_case(truth: list[str], answer: list[str]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    targets = np.zeros((len(truth), 8), bool)
    logits = np.zeros((len(truth), 8))
    for i, (true, said) in enumerate(zip(truth, answer, strict=True)):
        targets[i, TREE.classes.index(true)] = True
        logits[i, TREE.classes.index(said)] = 1 + i
    return targets, logits


def test_errors_are_told_by_the_level_at_which_they_leave_the_tree() -> None:
    targets, logits = tree_case(truth=["b", "b", "b", "b", "c", "c"], answer=["b", "c", "a", "d", "b", "c"])
    weights = np.ones((5, 6))
    weights[1] = [0, 0, 0, 6, 0, 0]
    found = tree_errors(TREE, targets, logits, weights, 0.95)
    assert found is not None and found.images == 6
    assert found.right.value == pytest.approx(2 / 6)
    shares = {name: share.value for name, share in found.wrong_at.items()}
    assert shares == {"region": pytest.approx(1 / 6), "category": pytest.approx(1 / 6), "finding": pytest.approx(2 / 6)}
    assert found.distance.value == pytest.approx((3 + 2 + 1 + 1) / 6)
    assert found.distance.high == pytest.approx(np.quantile([3, 7 / 6, 7 / 6, 7 / 6], 0.975))
    flat = replace(TREE, ancestors=())
    assert tree_errors(flat, targets, logits, weights, 0.95) is None


def test_the_most_confused_pairs_come_first_with_their_surest_mistakes() -> None:
    targets, logits = tree_case(truth=["b", "b", "b", "b", "c", "c"], answer=["c", "c", "b", "a", "b", "c"])
    targets[5, 7] = True  # two findings: no one answer is right
    weights = value_and_replicate_weights(np.arange(6), BootstrapConfig(200))
    pairs = [
        pair for pair in confused_pairs(TREE, targets, logits, list("uvwxyz"), weights, 0.95) if pair.level == "finding"
    ]
    first, *others = pairs
    assert (first.truth, first.answer, first.images, first.of) == ("b", "c", 2, 4)
    assert first.share.value == pytest.approx(0.5)
    assert first.share.low is not None and first.share.high is not None
    assert 0 <= first.share.low < 0.5 < first.share.high <= 1
    assert first.examples == ["v", "u"]  # the surest first
    assert {(pair.truth, pair.answer, pair.of) for pair in others} == {("b", "a", 4), ("c", "b", 1)}
