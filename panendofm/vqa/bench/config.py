"""The settings of a bench."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from panendofm.imaging.frame_filters.config import FieldOfViewConfig, QualityConfig
from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.lesion_config import LesionConfig
from panendofm.vqa.bench.questions.tasks import SUBTASKS, TASKS


@dataclass
class DistractorConfig:
    """What a wrong box must be like."""

    min_size_factor: float = option("Width and height are at least this many times those of the true box.", 0.8)
    max_size_factor: float = option("And at most this many times.", 1.25)
    max_iou_with_truth: float = option("Overlap with any true box of the same name.", 0.1)
    max_iou_between: float = option("Overlap among wrong boxes.", 0.2)
    min_share_in_view: float = option("Share inside the field of view: a box on the border gives itself away.", 0.95)
    tries: int = option("Draws for each box; when none fits, no question is made.", 200)


@dataclass
class ColumnsConfig:
    """Names of the columns; empty: none."""

    task: str = option("Task.", "category")
    subtask: str = option("Sub-task.", "subtask")
    category: str = option("Category of the task.", "l2-category")
    scene: str = option("Scene (GS, CS, CE, SE, or any word).", "scene")
    prompt_kind: str = option("Kind of visual prompt.", "prompt_kind")
    dataset: str = option("Dataset of the picture.", "dataset")
    group: str = option("Patient, video or other group.", "group")
    entity: str = option("What the answer is about.", "entity")


@dataclass
class ImportConfig:
    """A bench from a TSV file."""

    out: str = required("Folder of the new bench; it must not exist.")
    name: str = option("What the bench is called; empty: the file's name.", "")
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)


@dataclass
class PictureConfig:
    """What a picture must be like, and how it is sent."""

    longest_side_px: int = option("Longer pictures are scaled down to this.", 1024)
    crop: bool = option("Cut the black border off.", True)
    min_short_side_px: int = option("Smaller originals are left out.", 200)
    min_region_px: int = option("Boxes with a shorter side, as sent, are left out.", 16)
    field_of_view: FieldOfViewConfig = field(default_factory=FieldOfViewConfig)
    quality: QualityConfig = field(default_factory=QualityConfig)


@dataclass
class BuildConfig:
    """Questions from an atlas."""

    data: str = required("The atlas (atlas.parquet, written by 'panendofm atlas').")
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
