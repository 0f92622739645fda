"""The keys of the verbs of `panendofm challenge`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Literal

from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.config import BootstrapConfig

TimeUnit = Literal["ms", "s"]


@dataclass
class SubgroupConfig:
    """How images are parted by what the truth says of them (device, hospital, sex, age, organ, size_mm)."""

    age_limits: list[float] = option("Where age bands begin, in years.", [50.0, 60.0, 70.0, 80.0])
    size_limits_mm: list[float] = option("Where size bands begin: 6 and 10 part diminutive, small, large.", [6.0, 10.0])
    small: int = option("Subgroups of fewer patients (or groups) are marked as small.", 10, low=1)

    def check(self) -> None:
        for name, limits in (("age_limits", self.age_limits), ("size_limits_mm", self.size_limits_mm)):
            if not limits or limits != sorted(set(limits)) or limits[0] <= 0:
                raise UserError(f"subgroups.{name}={limits}: write rising numbers above 0.")


@dataclass
class ScoreConfig:
    truth: str = required("The gold standard, in the same form as the submission.")
    out: str = option("Folder for the results.", "challenge_results")
    profile: str | None = option(
        "Whose averages, such as medico2018, coco or endotect; null takes the default of the task.", None
    )
    team: str | None = option("Who answers; null takes it from PREFIX_TEAM_TASK_RUN.csv.", None)
    task: str | None = option("classification, efficiency or hardware; null takes it from the file's name.", None)
    run: str | None = option("Which of the team's runs; null takes it from the file's name.", None)
    classes: list[str] = option("All classes; empty takes those of the truth.", [])
    separator: str = option("What parts the columns: comma, semicolon, tab or pipe.", "comma")
    time_unit: TimeUnit | None = option("Unit of the times in a file without a header.", None)
    missing: Literal["refuse", "wrong"] = option("What a missing answer is.", "refuse")
    match: Literal["stem", "path"] = option("Compare names without folder and ending, or paths.", "stem")
    images: str | None = option("Folder of the images, for the errors on the page.", None)
    without: str | None = option(
        "File of names: also give the score without these images, such as near-duplicates of training images.", None
    )
    timing: str | None = option("FILE.timing.json of 'challenge time'.", None)
    metric: str | None = option("Print this metric only; refused when it does not fit the task.", None)
    confidence: float = option("Boxes from this confidence on are shown to the doctor.", 0.5, low=0, high=1)
    fps: float | None = option("Frames per second of the videos, for seconds and alarms per minute.", None, above=0)
    unseen_center: str | None = option("Center that was not in training: how much worse it is than the others.", None)
    training_images: int | None = option("How many the system was trained on; decides ties.", None, low=0)
    organizer: bool = option("Show the row without a rank.", False)
    subgroups: SubgroupConfig = option("", SubgroupConfig())
    bootstrap: BootstrapConfig = option("", BootstrapConfig())


@dataclass
class RankConfig:
    task: Literal["efficiency", "hardware", "clinical"] | None = option(
        "Another ranking of classification than that by quality.", None
    )
    reading: Literal["A", "B"] = option(
        "Efficiency: A ranks the fastest above 85%, B the best above 45 images a second.", "A"
    )
    published: str | None = option("Show a published table beside ours, such as medico2018_efficiency.", None)
    out: str | None = option("Folder for ranking.json, ranking.csv and the page; null prints only.", None)


@dataclass
class TimeConfig:
    images: str = required("Folder of test images; its place in the command is {images}.")
    out: str = option("Where the program's lines go.", "submission.csv")
    repeats: int = option("How often it is run; the quickest counts.", 1, low=1)
    time_unit: TimeUnit | None = option("Unit of the times in lines without a header.", None)
    timeout_seconds: float | None = option("A run that takes longer is stopped.", None, above=0)


@dataclass
class CheckDataConfig:
    out: str = option("Report to write.", "data_check.json")
    text: bool = option("Read the images for burned-in text, which is slow.", True)


@dataclass
class MergeConfig:
    out: str = option("Folder for gold.csv and gold.json.", "gold")
    date: str | None = option("Date of the merging, YYYY-MM-DD; null is today.", None)
    exports: list[str] = option("Exports of CVAT, Label Studio or LabelMe to add to the log first.", [])
    step: Literal["independent", "arbitration", "review"] = option("What was done in them.", "independent")
    annotator: str | None = option("Who annotated, where an export does not say.", None)


@dataclass
class TasksConfig:
    tool: Literal["cvat", "labelstudio", "labelme"] = required("For which annotation tool.")
    images: str = required("Folder of the images.")
    step: Literal["independent", "arbitration", "review"] = option("Which open work of the log.", "independent")
    out: str = option("Folder for the tasks.", "tasks")
    candidates: str | None = option("Predictions to draw in beforehand, such as boxes of a system.", None)
    classes: list[str] = option("Labels beside those of the log and the candidates.", [])
    image_url: str = option("What stands before an image's name, such as /data/local-files/?d=.", "")
    confidence: float = option("Candidates from this confidence on.", 0.5, low=0, high=1)


@dataclass
class ConvertConfig:
    out: str = required("File to write; a folder for yolo.")
    source_format: Literal["voc", "coco", "yolo", "csv", "json", "xml"] = required("What is read.")
    target_format: Literal["csv", "json", "xml", "coco", "yolo"] = option("What is written.", "csv")
    images: str | None = option("Folder of the images: yolo holds shares of their size.", None)
    classes: list[str] = option("Classes in their order: yolo holds numbers.", [])


@dataclass
class BundleConfig:
    title: str = required("Name of the challenge.")
    out: str = option("The bundle to write.", "codabench.zip")
    description: str = option("One sentence about the challenge.", "")
    profile: str | None = option("Whose averages rank; null takes the default of the task.", None)
    classes: list[str] = option("All classes; empty takes those of the truth, or of the profile.", [])
    match: Literal["stem", "path"] = option("Compare names without folder and ending, or paths.", "stem")
    missing: Literal["refuse", "wrong"] = option("What a missing answer is.", "refuse")
    confidence: float = option("Boxes and points from this confidence on are counted.", 0.5, low=0, high=1)
    start: str = required("First day of the first phase, YYYY-MM-DD.")
    development_end: str | None = option("Last day of the development phase.", None)
    end: str | None = option("Last day of the final phase; null leaves it open.", None)
    development_share: float = option("Share of the groups for a development phase.", 0.0, low=0, below=1)
    submissions: int = option("Submissions of a team in the development phase.", 50, low=1)
    final_submissions: int = option("Submissions of a team in the final phase.", 5, low=1)
    submissions_per_day: int = option("Submissions of a team a day.", 5, low=1)
    time_limit_seconds: int = option("Most time for scoring a submission.", 1200, low=1)
    packages: Literal["vendored", "image"] = option(
        "Copy the installed packages into the bundle, or rely on a Docker image that has them.", "vendored"
    )
    docker_image: str | None = option("Image that runs the scoring program; null is this version's python.", None)
    seed: int = option("Seed of the draw of the development phase.", 0)
    bootstrap: BootstrapConfig = option("", BootstrapConfig())

    def check(self) -> None:
        days = [("start", self.start), ("development_end", self.development_end), ("end", self.end)]
        for name, day in days:
            if day is not None and not _is_day(day):
                raise UserError(f"{name}={day}: write a day as YYYY-MM-DD.")
        if bool(self.development_share) != (self.development_end is not None):
            raise UserError("a development phase needs both development_share and development_end; give both or none.")
        known = [(name, day) for name, day in days if day is not None]
        for (first, a), (second, b) in pairwise(known):
            if a >= b:
                raise UserError(f"{second}={b} is not after {first}={a}; put the days in order.")


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


@dataclass
class RecordConfig:
    plan: str | None = option("plan.yaml: who, what, when, consent, ethics, retention.", None)
    shards: str | None = option("Shard set of the network's training, for its leakage certificate.", None)
    data_check: str | None = option("Report of 'challenge check-data'.", None)
    gold: str | None = option("gold.json of 'challenge merge'.", None)
    evidence: list[str] = option("Files with evidence maps of best and worst cases.", [])
    out: str = option("Folder for record.json and record.md.", "record")
