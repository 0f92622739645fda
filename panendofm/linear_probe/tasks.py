"""The ten tasks of PanEndoX, built from the labels that the atlas really has, and tasks of one's own."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import AMBIGUOUS, SPLITS, TEST, TRAIN, VALIDATION, Label, Sample, Taxonomy
from panendofm.linear_probe.results.document import ClassCounts, TaskCounts
from panendofm.runtime.errors import UserError


@dataclass(frozen=True)
class Level:
    """A run of classes with a loss of its own."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True)
class Task:
    """Samples with their targets. In an exclusive task every sample has exactly one class."""

    name: str
    title: str
    classes: tuple[str, ...]
    levels: tuple[Level, ...]
    exclusive: bool
    rows: NDArray[np.int64]  # [n], which of all samples
    targets: NDArray[np.bool_]  # [n, C]
    without_images: tuple[str, ...] = ()  # classes of the taxonomy that no image shows
    left_out: int = 0  # images whose equal copies are labeled with different classes

    def class_name(self, number: int) -> str:
        """The name of a class, with its level where there are several."""
        level = next(level for level in self.levels if level.start <= number < level.stop)
        name = self.classes[number]
        return f"{level.name}:{name}" if level.name else name


@dataclass(frozen=True)
class TaskSpec:
    """How a task picks classes from an image's labels: for each level, names of all classes, and a label's class."""

    name: str
    title: str
    exclusive: bool
    levels: tuple[tuple[str, Callable[[Taxonomy], list[str]], Callable[[Label], str | None]], ...]


def _disease(region: str, name: str) -> TaskSpec:
    def classes(taxonomy: Taxonomy) -> list[str]:
        return taxonomy.findings_of(region, "pathological-findings")

    def of(label: Label) -> str | None:
        return label.finding if (label.region, label.category) == (region, "pathological-findings") else None

    return TaskSpec(name, f"{region.replace('-', ' ')} disease", False, (("", classes, of),))


def _grading(name: str, title: str, findings: tuple[str, ...], grades: tuple[str, ...]) -> TaskSpec:
    def of(label: Label) -> str | None:
        return label.grade if label.finding in findings and label.grade in grades else None

    return TaskSpec(name, title, True, (("", lambda taxonomy: list(grades), of),))


def _choice(name: str, title: str, findings: tuple[str, ...]) -> TaskSpec:
    def of(label: Label) -> str | None:
        return label.finding if label.finding in findings and label.grade != AMBIGUOUS else None

    return TaskSpec(name, title, True, (("", lambda taxonomy: list(findings), of),))


NON_LANDMARK = "non-landmark"
_STOMACH_LANDMARKS = ("pylorus", "retroflex-stomach")


def _stomach_landmark(label: Label) -> str | None:
    if label.region != "stomach":
        return None
    return label.finding if label.finding in _STOMACH_LANDMARKS else NON_LANDMARK


SPECS = (
    TaskSpec(
        "gi-tree",
        "GI tree",
        False,
        (
            ("region", lambda taxonomy: list(taxonomy.regions), lambda label: label.region),
            ("category", lambda taxonomy: list(taxonomy.categories), lambda label: label.category),
            ("finding", lambda taxonomy: list(taxonomy.findings), lambda label: label.finding),
        ),
    ),
    _grading(
        "barretts-grading",
        "Barrett's grading",
        ("barretts",),
        (
            "normal-barretts",
            "barretts-short-segment",
            "barretts-long-segment",
            "low-grade-dysplasia",
            "high-grade-dysplasia",
        ),
    ),
    _grading(
        "uc-grading",
        "ulcerative colitis grading",
        ("ulcerative-colitis",),
        ("MAYO-0", "MAYO-1", "MAYO-2", "MAYO-3"),
    ),
    _grading(
        "polyp-subtyping",
        "polyp subtyping",
        ("colon-polyp", "colorectal-cancer"),
        ("hyperplastic", "adenomatous", "serrated", "invasive-cancer"),
    ),
    _choice("bbps", "bowel preparation (BBPS)", ("BBPS-0-1", "BBPS-2-3", "impacted-stool")),
    _disease("esophagus", "esophagus-disease"),
    _disease("stomach", "stomach-disease"),
    _disease("small-intestine", "si-disease"),
    _disease("colon", "colon-disease"),
    TaskSpec(
        "stomach-landmark",
        "stomach landmark",
        True,
        (("", lambda taxonomy: [NON_LANDMARK, *_STOMACH_LANDMARKS], _stomach_landmark),),
    ),
)


def task_specs(name: str) -> list[TaskSpec]:
    """The tasks that a name asks for: all, one, or several parted by commas."""
    if name == "all":
        return list(SPECS)
    by_name = {spec.name: spec for spec in SPECS}
    chosen = []
    for one in name.split(","):
        if one not in by_name:
            match = difflib.get_close_matches(one, by_name, n=1)
            hint = f"did you mean '{match[0]}'?" if match else f"there are: all, {', '.join(by_name)}."
            raise UserError(f"there is no task '{one}'; {hint}")
        chosen.append(by_name[one])
    return chosen


def build_task(spec: TaskSpec, samples: Sequence[Sample], taxonomy: Taxonomy) -> Task:
    """The task on these samples. Classes that no sample has are listed, not trained."""
    shown: list[tuple[int, list[set[str]]]] = []  # sample, its classes at each level
    left_out = 0
    for row, sample in enumerate(samples):
        by_level = [{c for label in sample.labels if (c := of(label))} for _, _, of in spec.levels]
        if not by_level[0]:
            continue
        if spec.exclusive and len(by_level[0]) > 1:
            left_out += 1
            continue
        shown.append((row, by_level))
    classes: list[str] = []
    levels: list[Level] = []
    without: list[str] = []
    for i, (name, all_classes, _) in enumerate(spec.levels):
        present = {c for _, by_level in shown for c in by_level[i]}
        start = len(classes)
        classes += [c for c in all_classes(taxonomy) if c in present]
        levels.append(Level(name, start, len(classes)))
        without += [c for c in all_classes(taxonomy) if c not in present]
    targets = np.zeros((len(shown), len(classes)), bool)
    for j, (_, by_level) in enumerate(shown):
        for i, level in enumerate(levels):
            for name in by_level[i]:
                targets[j, classes.index(name, level.start, level.stop)] = True
    rows = np.array([row for row, _ in shown], np.int64)
    return Task(
        spec.name, spec.title, tuple(classes), tuple(levels), spec.exclusive, rows, targets, tuple(without), left_out
    )


def custom_task(name: str, samples: Sequence[Sample]) -> Task:
    """A task whose classes are the samples' own; exclusive when no sample has two."""
    classes = tuple(sorted({c for sample in samples for c in sample.classes}))
    targets = np.array([[c in sample.classes for c in classes] for sample in samples], bool)
    exclusive = bool((targets.sum(1) == 1).all())
    return Task(name, name, classes, (Level("", 0, len(classes)),), exclusive, np.arange(len(samples)), targets)


def evaluable(task: Task, sides: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which classes [C] have positives on every side, and negatives to tell them from."""
    enough = np.ones(len(task.classes), bool)
    for side in (TRAIN, VALIDATION, TEST):
        targets = task.targets[sides == side]
        enough &= targets.any(0) & (~targets).any(0)
    return enough


def why_not_runnable(task: Task, sides: NDArray[np.int64]) -> str | None:
    """None when the task has a class that can be evaluated; else the reason in words."""
    if not len(task.rows):
        return "no image has a label of this task"
    if len(task.classes) < 2:
        return f"only one class has images ({task.classes[0]})"
    if not evaluable(task, sides).any():
        return "no class has images on all three sides of the split"
    return None


def task_counts(task: Task, sides: NDArray[np.int64]) -> TaskCounts:
    can = evaluable(task, sides) if len(task.rows) else np.zeros(len(task.classes), bool)
    counts = Counter(sides.tolist())
    per_class = {}
    for level in task.levels:
        for i in range(level.start, level.stop):
            on_sides = (int(task.targets[sides == side, i].sum()) for side in range(len(SPLITS)))
            per_class[task.class_name(i)] = ClassCounts(bool(can[i]), *on_sides)
    return TaskCounts(
        title=task.title,
        classes=len(task.classes),
        evaluable_classes=int(can.sum()),
        classes_without_images=list(task.without_images),
        images={name: counts[i] for i, name in enumerate(SPLITS)},
        left_out_contradictory=task.left_out,
        per_class=per_class,
    )
