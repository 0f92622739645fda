"""The ten tasks of PanEndoX, built from the labels that the atlas really has, and tasks of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas.config import TaskSet
from panendofm.atlas.panendox.published import published_panendox
from panendofm.atlas.samples import Sample
from panendofm.atlas.split import TEST, TRAIN, VALIDATION
from panendofm.atlas.taxonomy import AMBIGUOUS, Label, load_taxonomy
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import hint


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
    without_images: tuple[str, ...] = ()  # classes of the spec that no image shows
    left_out: int = 0  # images whose equal copies are labeled with different classes
    # Of a task with several levels: what the classes of its last level are at the levels above, by class.
    ancestors: tuple[tuple[str, ...], ...] = ()

    def class_name(self, number: int) -> str:
        """The name of a class, with its level where there are several."""
        level = next(level for level in self.levels if level.start <= number < level.stop)
        name = self.classes[number]
        return f"{level.name}:{name}" if level.name else name


Class = str | None


@dataclass(frozen=True)
class LevelSpec:
    """One level of a task: all its classes, and which of them a label is of."""

    name: str
    classes: tuple[str, ...]
    class_of: Callable[[Label], Class]


@dataclass(frozen=True)
class TaskSpec:
    """How a task picks classes from an image's labels."""

    name: str
    title: str
    exclusive: bool
    levels: tuple[LevelSpec, ...]


NON_LANDMARK = "non-landmark"
_PATHOLOGY = "pathological-findings"


def _paper_names(label: Label) -> tuple[str, ...]:
    """What the paper may call a label, most particular first: it counts synonyms, and one grade, as findings."""
    taxonomy = load_taxonomy()
    of_grade = (
        alias
        for alias, grade in taxonomy.alias_grades.items()
        if (taxonomy.aliases[alias], grade) == (label.finding, label.grade)
    )
    return (*of_grade, label.written, label.finding)


def _disease(name: str, region: str) -> Callable[[tuple[str, ...]], TaskSpec]:
    """Diseases of a region: those listed, or all of the taxonomy."""

    def spec(listed: tuple[str, ...]) -> TaskSpec:
        classes = listed or tuple(load_taxonomy().findings_of(region, _PATHOLOGY))

        def class_of(label: Label) -> Class:
            if (label.region, label.category) != (region, _PATHOLOGY):
                return None
            names = _paper_names(label) if listed else (label.finding,)
            return next((own for own in names if own in classes), None)

        return TaskSpec(name, f"{region.replace('-', ' ')} disease", False, (LevelSpec("", classes, class_of),))

    return spec


def _grading(
    name: str, title: str, findings: tuple[str, ...], grades: tuple[str, ...]
) -> Callable[[tuple[str, ...]], TaskSpec]:
    def spec(listed: tuple[str, ...]) -> TaskSpec:
        classes = listed or grades

        def class_of(label: Label) -> Class:
            return label.grade if label.finding in findings and label.grade in classes else None

        return TaskSpec(name, title, True, (LevelSpec("", classes, class_of),))

    return spec


def _bowel_preparation(listed: tuple[str, ...]) -> TaskSpec:
    classes = listed or ("BBPS-0-1", "BBPS-2-3", "impacted-stool")

    def class_of(label: Label) -> Class:
        return label.finding if label.finding in classes and label.grade != AMBIGUOUS else None

    return TaskSpec("bbps", "bowel preparation (BBPS)", True, (LevelSpec("", classes, class_of),))


def _stomach_landmark(listed: tuple[str, ...]) -> TaskSpec:
    classes = listed or (NON_LANDMARK, "pylorus", "retroflex-stomach")

    def class_of(label: Label) -> Class:
        if label.region != "stomach":
            return None
        return label.finding if label.finding in classes else NON_LANDMARK

    return TaskSpec("stomach-landmark", "stomach landmark", True, (LevelSpec("", classes, class_of),))


def _tree(tasks: TaskSet) -> TaskSpec:
    """Published: the findings that the paper names, synonyms apart; it does not list the classes of its tree."""
    taxonomy = load_taxonomy()
    findings = tuple(taxonomy.findings)
    if tasks == "published":
        named = [name for name, finding in taxonomy.findings.items() if finding.named_in_paper]
        findings = (*named, *taxonomy.aliases)

    def finding_of(label: Label) -> Class:
        names = _paper_names(label) if tasks == "published" else (label.finding,)
        return next((own for own in names if own in findings), None)

    levels = (
        LevelSpec("region", taxonomy.regions, lambda label: label.region),
        LevelSpec("category", taxonomy.categories, lambda label: label.category),
        LevelSpec("finding", findings, finding_of),
    )
    return TaskSpec("gi-tree", "GI tree", False, levels)


_MAKERS = {
    "barretts-grading": _grading(
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
    "uc-grading": _grading(
        "uc-grading",
        "ulcerative colitis grading",
        ("ulcerative-colitis",),
        ("MAYO-0", "MAYO-1", "MAYO-2", "MAYO-3"),
    ),
    "polyp-subtyping": _grading(
        "polyp-subtyping",
        "polyp subtyping",
        ("colon-polyp", "colorectal-cancer"),
        ("hyperplastic", "adenomatous", "serrated", "invasive-cancer"),
    ),
    "bbps": _bowel_preparation,
    "esophagus-disease": _disease("esophagus-disease", "esophagus"),
    "stomach-disease": _disease("stomach-disease", "stomach"),
    "si-disease": _disease("si-disease", "small-intestine"),
    "colon-disease": _disease("colon-disease", "colon"),
    "stomach-landmark": _stomach_landmark,
}


@cache
def panendox_specs(tasks: TaskSet = "clean") -> tuple[TaskSpec, ...]:
    """The ten tasks. `clean`: classes of the taxonomy, synonyms merged. `published`: exactly those of the paper."""
    printed = published_panendox().tasks
    others = [make(printed[name].classes if tasks == "published" else ()) for name, make in _MAKERS.items()]
    return (_tree(tasks), *others)


def task_specs(name: str, tasks: TaskSet = "clean") -> list[TaskSpec]:
    """The tasks that a name asks for: all, one, or several parted by commas."""
    specs = panendox_specs(tasks)
    if name == "all":
        return list(specs)
    by_name = {spec.name: spec for spec in specs}
    chosen = []
    for one in name.split(","):
        if one not in by_name:
            raise UserError(f"there is no task '{one}'; {hint(one, ['all', *by_name])}")
        chosen.append(by_name[one])
    return chosen


def build_task(spec: TaskSpec, samples: Sequence[Sample]) -> Task:
    """The task on these samples. Classes that no sample has are listed, not trained."""
    shown: list[tuple[int, list[set[str]]]] = []  # sample, its classes at each level
    above: dict[str, tuple[str, ...]] = {}
    left_out = 0
    for row, sample in enumerate(samples):
        paths = [path for label in sample.labels if None not in (path := [lv.class_of(label) for lv in spec.levels])]
        by_level = [{str(path[i]) for path in paths} for i in range(len(spec.levels))]
        above |= {str(path[-1]): tuple(str(c) for c in path[:-1]) for path in paths}
        if not by_level[0]:
            continue
        if spec.exclusive and len(by_level[0]) > 1:
            left_out += 1
            continue
        shown.append((row, by_level))
    classes: list[str] = []
    levels: list[Level] = []
    without: list[str] = []
    for i, level_spec in enumerate(spec.levels):
        present = {c for _, by_level in shown for c in by_level[i]}
        start = len(classes)
        classes += [c for c in level_spec.classes if c in present]
        levels.append(Level(level_spec.name, start, len(classes)))
        without += [c for c in level_spec.classes if c not in present]
    targets = np.zeros((len(shown), len(classes)), bool)
    for j, (_, by_level) in enumerate(shown):
        for i, level in enumerate(levels):
            for name in by_level[i]:
                targets[j, classes.index(name, level.start, level.stop)] = True
    rows = np.array([row for row, _ in shown], np.int64)
    return Task(
        name=spec.name,
        title=spec.title,
        classes=tuple(classes),
        levels=tuple(levels),
        exclusive=spec.exclusive,
        rows=rows,
        targets=targets,
        without_images=tuple(without),
        left_out=left_out,
        ancestors=tuple(above[name] for name in classes[levels[-1].start :]) if len(levels) > 1 else (),
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
