"""The settings of a bench."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runtime.config import option, required
from runtime.errors import UserError
from vqa.bench.distractors import DistractorConfig
from vqa.bench.lesion_config import LesionConfig
from vqa.bench.pictures import PictureConfig
from vqa.bench.tasks import SUBTASKS, TASKS


@dataclass
class BuildConfig:
    """Questions from an atlas."""

    data: str = required("The atlas (atlas.parquet, written by 'python -m linear_probe atlas').")
    out: str = required("Folder of the new bench; it must not exist.")
    profile: Literal["endobench", "gi_bench"] = option("Twelve tasks, or five questions about one lesion.", "endobench")
    name: str = option("What the bench is called.", "endobench")
    references: str = option("gi_bench: JSONL of reference texts: id (sha256 or file name), q4, q5, author.", "")
    regions: str = option("Regions besides those of the datasets: a JSONL list or a folder of LabelMe files.", "")
    all_regions_listed: bool = option("The list of regions names every polyp of a picture: they may be counted.", False)
    annotations: str = option("JSONL of operations: file, operation, phase, step, action, instruments.", "")
    weights: str = option("Network whose features choose the pictures; 'pixels' needs none.", "pixels")
    device: str | None = option("Where the network runs; null takes a GPU when there is one.", None)
    seed: int = option("Another seed gives other choices, wordings and distractors.", 0)
    tasks: list[str] = option("Tasks or sub-tasks to build; empty for all.", [])
    cap: int = option("Most questions of one entity in a sub-task.", 50)
    caps: dict[str, int] = option("The same for single sub-tasks.", {"LS": 40})
    questions_per_subtask: int | None = option("Most questions of a sub-task; null: as many as the caps allow.", None)
    state_size: bool = option("Questions with coordinates say how large the picture is.", True)
    templates: str = option("YAML file with other wordings.", "")
    review: str = option("CSV of physicians' decisions to apply.", "")
    pictures: PictureConfig = field(default_factory=PictureConfig)
    distractors: DistractorConfig = field(default_factory=DistractorConfig)
    lesions: LesionConfig = field(default_factory=LesionConfig)

    def check(self) -> None:
        for name in self.tasks:
            if name not in TASKS and name not in SUBTASKS:
                raise UserError(
                    f"tasks: there is no '{name}'; there are: {', '.join(dict.fromkeys([*TASKS, *SUBTASKS]))}."
                )
        if self.cap < 1 or min(self.caps.values(), default=1) < 1:
            raise UserError("cap and caps must be at least 1.")

    def subtasks(self) -> list[str]:
        return [code for code, s in SUBTASKS.items() if not self.tasks or code in self.tasks or s.task in self.tasks]
