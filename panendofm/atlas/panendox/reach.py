"""Which classes of each PanEndoX task the mappings can give, have images and can be evaluated, and what would add more.

A class may be missing for three reasons: no mapping has it, its datasets are not on disk, or its images are too few
groups to be on all sides of the split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from panendofm.atlas.config import TaskSet
from panendofm.atlas.datasets import mapping as datasets
from panendofm.atlas.panendox.published import published_panendox
from panendofm.atlas.panendox.tasks import TaskSpec, build_task, evaluable, panendox_specs
from panendofm.atlas.samples import Sample
from panendofm.atlas.split import Split
from panendofm.atlas.taxonomy import Label


@dataclass(frozen=True)
class TaskReach:
    """Numbers of classes, all levels of a task together. `adds`: dataset that is not on disk → classes it would add."""

    task: str
    title: str
    in_paper: int  # as the paper states it
    classes: int  # of the task as it is defined here
    reachable: int  # by the labels of the mappings
    with_images: int
    evaluable: int
    adds: dict[str, list[str]]
    nowhere: list[str]  # classes that no mapping has


def reach(
    samples: Sequence[Sample], split: Split, mappings: Mapping[str, datasets.Mapping], tasks: TaskSet
) -> list[TaskReach]:
    """`mappings` are those that were used, extended by the user's tables of codes."""
    on_disk = {name for sample in samples for name in sample.datasets}
    result = []
    for spec in panendox_specs(tasks):
        by_dataset = {name: _classes(spec, _labels(mapping)) for name, mapping in mappings.items()}
        reachable = set().union(*by_dataset.values())
        task = build_task(spec, samples)
        present = {(level.name, task.classes[i]) for level in task.levels for i in range(level.start, level.stop)}
        can = evaluable(task, split.sides[task.rows]) if len(task.rows) else None
        every = [(level.name, name) for level in spec.levels for name in level.classes]
        result.append(
            TaskReach(
                task=spec.name,
                title=spec.title,
                in_paper=published_panendox().tasks[spec.name].stated_classes,
                classes=len(every),
                reachable=len(reachable),
                with_images=len(present),
                evaluable=0 if can is None else int(can.sum()),
                adds={
                    name: sorted(label for _, label in classes - present)
                    for name, classes in by_dataset.items()
                    if name not in on_disk and classes - present
                },
                nowhere=[name for level, name in every if (level, name) not in reachable],
            )
        )
    return result


def _labels(mapping: datasets.Mapping) -> set[Label]:
    return {label for labels in mapping.labels.values() for label in labels}


def _classes(spec: TaskSpec, labels: Iterable[Label]) -> set[tuple[str, str]]:
    """Level and name of every class that a label gives."""
    found = set()
    for label in labels:
        path = [level.class_of(label) for level in spec.levels]
        if None not in path:
            found |= {(level.name, str(name)) for level, name in zip(spec.levels, path, strict=True)}
    return found
