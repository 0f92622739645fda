"""Tasks are built from labels that exist and say so; metrics of a task; calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as reference

from panendofm.atlas.labeled.overlap import overlapping
from panendofm.atlas.panendox.tasks import (
    Level,
    Task,
    build_task,
    custom_task,
    evaluable,
    panendox_specs,
    task_specs,
    why_not_runnable,
)
from panendofm.atlas.samples import Sample
from panendofm.atlas.split import TEST, TRAIN, VALIDATION
from panendofm.atlas.taxonomy import Label, load_taxonomy
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import Head, Trained
from panendofm.linear_probe.results.counts import task_counts
from panendofm.linear_probe.results.evaluate import TestSide, evaluate
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification.calibration import cross_entropy, fit_temperature, sigmoid
from panendofm.scoring.statistics.config import BootstrapConfig

P = "pathological-findings"


def sample(name: str, *labels: Label, dataset: str = "kvasir") -> Sample:
    return Sample(name, name, (dataset,), labels, tuple(label.finding for label in labels), ())


SAMPLES = [
    sample("0", Label("colon", P, "ulcerative-colitis", "MAYO-1")),
    sample("1", Label("colon", P, "ulcerative-colitis", "MAYO-2"), Label("colon", P, "colon-polyp")),
    sample("2", Label("colon", P, "ulcerative-colitis", "ambiguous")),
    sample("3", Label("colon", P, "ulcerative-colitis", "MAYO-1"), Label("colon", P, "ulcerative-colitis", "MAYO-3")),
    sample("4", Label("stomach", "anatomical-landmarks", "pylorus")),
    sample("5", Label("stomach", P, "gastric-ulcer")),
    sample("6", Label("colon", P, "colorectal-cancer", "invasive-cancer")),
    sample("7", Label("colon", P, "colon-polyp", "sessile")),
]


def built(name: str) -> Task:
    return build_task(task_specs(name)[0], SAMPLES)


def test_ten_tasks_and_their_classes_come_from_the_labels_that_exist() -> None:
    assert len(panendox_specs()) == 10
    grading = built("uc-grading")
    assert grading.classes == ("MAYO-1", "MAYO-2")  # in MAYO-1 against MAYO-3 equal files disagree
    assert grading.rows.tolist() == [0, 1] and grading.left_out == 1
    assert grading.without_images == ("MAYO-0", "MAYO-3")
    disease = built("colon-disease")
    assert disease.classes == ("colon-polyp", "colorectal-cancer", "ulcerative-colitis")
    assert disease.rows.tolist() == [0, 1, 2, 3, 6, 7]  # graded or not, colitis is colitis
    assert disease.targets[1].tolist() == [True, False, True]
    assert built("stomach-landmark").classes == ("non-landmark", "pylorus")
    assert built("polyp-subtyping").classes == ("invasive-cancer",)  # sessile is a shape
    assert built("stomach-disease").classes == ("gastric-ulcer",)


def test_the_tree_has_three_levels_with_a_class_each() -> None:
    tree = built("gi-tree")
    assert [level.name for level in tree.levels] == ["region", "category", "finding"]
    assert len(tree.rows) == len(SAMPLES)
    for level in tree.levels:
        assert tree.targets[:, level.start : level.stop].any(1).all()
    assert tree.classes[: tree.levels[0].stop] == ("stomach", "colon")
    assert len(tree.classes) + len(tree.without_images) == 5 + 5 + len(load_taxonomy().findings)


def test_unknown_task_is_one_sentence() -> None:
    with pytest.raises(UserError, match="there is no task 'bpps'; did you mean 'bbps'"):
        task_specs("gi-tree,bpps")


def test_a_class_without_positives_on_a_side_is_not_evaluable() -> None:
    task = custom_task("t", [Sample(str(i), "", ("d",), (), ("abc"[i % 3],), ()) for i in range(9)])
    sides = np.array([TRAIN, TRAIN, TRAIN, VALIDATION, VALIDATION, VALIDATION, TEST, TEST, TEST])
    assert evaluable(task, sides).tolist() == [True, True, True]
    sides[8] = TRAIN  # the only c of the test side
    assert evaluable(task, sides).tolist() == [True, True, False]
    counts = task_counts(task, sides)
    assert counts.evaluable_classes == 2 and not counts.per_class["c"].evaluable
    assert why_not_runnable(task, sides) is None
    assert why_not_runnable(task, np.full(9, TRAIN)) == "no class has images on all three sides of the split"
    assert why_not_runnable(built("polyp-subtyping"), np.zeros(1)) == "only one class has images (invasive-cancer)"
    assert why_not_runnable(built("si-disease"), np.zeros(0)) == "no image has a label of this task"


def _trained(temperature: float = 1.0) -> Trained:
    head = Head("any", Columns("cls", 0, 1), torch.empty(0), torch.empty(0), 0.5, 1.0, temperature)
    return Trained(head, [head])


def _side(targets: np.ndarray, evaluable_classes: list[bool], seen: np.ndarray | None = None) -> TestSide:
    n = len(targets)
    overlap = seen if seen is not None else np.zeros(n, bool)
    traits = [(("dataset", "x"),) if i % 2 else (("dataset", "x"), ("dataset", "y")) for i in range(n)]
    return TestSide(targets, np.arange(n), traits, [str(i) for i in range(n)], np.array(evaluable_classes), overlap)


def test_metrics_of_an_exclusive_task_are_scikit_learns() -> None:
    random = np.random.default_rng(0)
    label = random.integers(0, 3, 90)
    targets = np.eye(3, dtype=bool)[label]
    logits = np.eye(3)[label] + random.normal(size=(90, 3))
    task = Task("t", "t", ("a", "b", "c"), (Level("", 0, 3),), True, np.arange(90), targets)
    metrics, draws = evaluate(task, _side(targets, [True] * 3), logits, _trained(2.0), BootstrapConfig(200))
    answer = logits.argmax(1)
    expected = {
        "accuracy": reference.accuracy_score(label, answer),
        "balanced_accuracy": reference.balanced_accuracy_score(label, answer),
        "f1": reference.f1_score(label, answer, average="macro"),
        "ppv": reference.precision_score(label, answer, average="macro"),
        "mcc": reference.matthews_corrcoef(label, answer),
        "average_precision": reference.average_precision_score(targets, logits, average="macro"),
    }
    for name, value in expected.items():
        assert getattr(metrics, name) == pytest.approx(value), name
    assert metrics.auc.macro == pytest.approx(reference.roc_auc_score(targets, logits, average="macro"))
    assert metrics.auc.low < metrics.auc.macro < metrics.auc.high
    assert len(draws) == 200
    assert metrics.calibration.after.brier == pytest.approx(((sigmoid(logits / 2) - targets) ** 2).mean())
    (_, part) = metrics.subgroups
    assert (part.kind, part.name, part.images) == ("dataset", "y", 45)
    assert part.auc.value == pytest.approx(reference.roc_auc_score(targets[::2], logits[::2], average="macro"))
    assert metrics.without_pretraining_overlap is None


def test_intervals_are_drawn_over_groups() -> None:
    """Forty patients with ten equal images each: single images would promise three times the certainty."""
    random = np.random.default_rng(3)
    patients = np.repeat(np.arange(40), 10)
    targets = np.stack([patients % 2 == 0, patients % 2 == 1], 1)
    logits = targets + np.repeat(random.normal(size=(40, 2)), 10, axis=0)
    task = Task("t", "t", ("a", "b"), (Level("", 0, 2),), True, np.arange(400), targets)
    seen = np.arange(400) < 10
    widths = {}
    for name, groups in {"patients": patients, "images": np.arange(400)}.items():
        side = TestSide(targets, groups, [()] * 400, [""] * 400, np.array([True, True]), seen)
        metrics, _ = evaluate(task, side, logits, _trained(), BootstrapConfig(300))
        for part in (metrics.auc, metrics.per_class["a"], metrics.without_pretraining_overlap):
            widths.setdefault(name, []).append(part.high - part.low)
    for by_patient, by_image in zip(widths["patients"], widths["images"], strict=True):
        assert by_patient > 2 * by_image


def test_what_cannot_be_evaluated_is_none_and_leaves_the_mean() -> None:
    random = np.random.default_rng(1)
    targets = random.random((60, 3)) < 0.4
    targets[:, 2] = False
    logits = random.normal(size=(60, 3))
    task = Task("t", "t", ("a", "b", "c"), (Level("", 0, 3),), False, np.arange(60), targets)
    metrics, _ = evaluate(task, _side(targets, [True, False, False]), logits, _trained(), BootstrapConfig(50))
    assert metrics.per_class["b"].auc is None and metrics.per_class["c"].auc is None
    assert metrics.auc.classes == 1
    assert metrics.auc.macro == pytest.approx(reference.roc_auc_score(targets[:, 0], logits[:, 0]))


def test_metrics_without_what_the_pretraining_has_seen() -> None:
    random = np.random.default_rng(2)
    targets = random.random((80, 1)) < 0.5
    targets = np.concatenate([targets, ~targets], 1)
    logits = random.normal(size=(80, 2))
    seen = np.arange(80) < 40
    logits[seen] += 10 * targets[seen]  # known by heart
    task = Task("t", "t", ("a", "b"), (Level("", 0, 2),), True, np.arange(80), targets)
    metrics, _ = evaluate(task, _side(targets, [True, True], seen), logits, _trained(), BootstrapConfig(50))
    unseen = metrics.without_pretraining_overlap
    assert unseen.images == 40 and unseen.left_out == 40
    assert unseen.macro == pytest.approx(reference.roc_auc_score(targets[~seen], logits[~seen], average="macro"))
    assert unseen.macro < metrics.auc.macro
    everything, _ = evaluate(
        task, _side(targets, [True, True], np.ones(80, bool)), logits, _trained(), BootstrapConfig(50)
    )
    left = everything.without_pretraining_overlap
    assert left is not None and (left.images, left.left_out, left.macro) == (0, 80, None)


def test_overlap_by_corpus_and_by_image(tmp_path) -> None:  # type: ignore[no-untyped-def]
    samples = [sample("a" * 64, dataset="ers"), sample("b" * 64, dataset="kvasir"), sample("c" * 64, dataset="sun")]
    assert overlapping(samples, [], "").tolist() == [False] * 3
    assert overlapping(samples, ["ers"], "").tolist() == [True, False, False]
    listed = tmp_path / "seen.csv"
    listed.write_text(f"sha256\n{'b' * 64}\n")
    assert overlapping(samples, ["endofm-pretrain"], str(listed)).tolist() == [False, True, True]
    assert overlapping([sample("a"), sample("b", dataset="polar")], ["hyperkvasir"], "").tolist() == [True, False]
    with pytest.raises(
        UserError, match=r"pretraining_corpora: 'endofm-pretrian' is .*; did you mean 'endofm-pretrain'\?"
    ):
        overlapping(samples, ["endofm-pretrian"], "")
    listed.write_text("digest\nx\n")
    with pytest.raises(UserError, match="it needs a column 'sha256' or 'file'"):
        overlapping(samples, [], str(listed))


def test_temperature_is_the_one_that_was_used() -> None:
    random = np.random.default_rng(3)
    logits = random.normal(size=(20000, 1)) * 2
    targets = random.random((20000, 1)) < sigmoid(logits)
    assert fit_temperature(targets, logits * 3) == pytest.approx(3.0, rel=0.06)
    assert fit_temperature(targets, logits) == pytest.approx(1.0, rel=0.06)
    assert cross_entropy(targets, logits * 3 / fit_temperature(targets, logits * 3)) < cross_entropy(
        targets, logits * 3
    )
    assert fit_temperature(np.zeros((0, 2), bool), np.zeros((0, 2))) == 1.0
    assert cross_entropy(np.array([[True]]), np.array([[-1000.0]])) == pytest.approx(1000.0)
