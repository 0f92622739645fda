"""results.json of a scored submission: what it holds, written and read here alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from panendofm.challenge.score.subsets import Estimates, Subgroup, Subset
from panendofm.challenge.timing import Timing
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification import rates
from panendofm.scoring.detection.video import LatencySummary
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate, estimate
from panendofm.scoring.statistics.generalization import Generalization
from panendofm.scoring.statistics.speed import Speed

RESULTS = "results.json"
Interval = tuple[float, float]


@dataclass(frozen=True)
class Submission:
    """Who answered, and how the answers were scored. Of files there are names without folders, and checksums."""

    team: str
    task: str
    run: str
    profile: str
    truth: str
    truth_sha256: str
    file: str
    file_sha256: str
    bootstrap: BootstrapConfig
    training_images: int | None
    organizer: bool


@dataclass(frozen=True)
class ProfileScores:
    """The metrics of one challenge."""

    about: str
    metrics: Estimates


@dataclass(frozen=True, kw_only=True)
class _Scores:
    n: int  # images, or frames
    classes: list[str]
    groups: int  # what the bootstrap drew, and of which kind: patients, videos, groups or images
    group_kind: str
    subgroups: list[Subgroup] = field(default_factory=list)
    does_well: list[Subset] = field(default_factory=list)
    does_badly: list[Subset] = field(default_factory=list)


@dataclass(frozen=True)
class LabelProfileScores(ProfileScores):
    counts: dict[str, float]  # tp, fp, fn, tn: sums or means over classes, as the challenge prints them


@dataclass(frozen=True)
class MacroMean(Estimate):
    """Over the classes that have test images and a value."""

    classes: int = 0


@dataclass(frozen=True)
class HouseScores:
    """Our own averages, and the three numbers that are called MCC, told apart."""

    macro: dict[str, MacroMean]
    mcc_multiclass: float
    mcc_pooled: float
    mcc_mean_of_classes: float | None


@dataclass(frozen=True)
class LabelClass:
    """One class against all others; None where a rate is not defined."""

    images: int
    tp: int
    fp: int
    fn: int
    tn: int
    rates: dict[str, float | None]
    recall_interval: Interval | None
    precision_interval: Interval | None


@dataclass(frozen=True)
class ConfidenceScores:
    """What the confidences are worth: calibration, and the error when only the surest are answered."""

    expected_calibration_error: float | None
    mean_confidence: float | None
    brier_of_the_answer: float | None
    risk_at_coverage: Estimates
    area_under_risk_coverage: float


@dataclass(frozen=True)
class LevelScores:
    """Share of right answers by region and by category: some errors are less wrong than others."""

    mapping: str
    region: float
    category: float


@dataclass(frozen=True)
class SubsetScores:
    """Some of the images."""

    images: int
    correct: float
    mcc: float


@dataclass(frozen=True, kw_only=True)
class LabelScores(_Scores):
    missing_counted_as_wrong: int
    confusion: list[list[int]]  # [truth][answer], with one column more where answers are missing
    profiles: dict[str, LabelProfileScores]
    house: HouseScores
    per_class: dict[str, LabelClass]
    confidence: ConfidenceScores
    speed: Speed | None  # from the times that the submission states
    fps: Estimate | None
    levels: LevelScores | None
    centers: dict[str, SubsetScores]
    measured: Timing | None = None
    without_listed: SubsetScores | None = None
    type: Literal["classification"] = "classification"

    @property
    def answer_columns(self) -> list[str]:
        return [*self.classes, *(["(missing)"] if self.missing_counted_as_wrong else [])]


@dataclass(frozen=True)
class Centers:
    """The main metric of each center: a mean over centers hides the one where it fails."""

    metric: str
    values: dict[str, float | None]
    frames: dict[str, int]
    generalization: Generalization | None


@dataclass(frozen=True)
class BoxProfileScores(ProfileScores):
    classes_with_truth: int
    ap: dict[str, dict[str, float | None]]  # by class and IoU threshold


@dataclass(frozen=True)
class CountedRates:
    tp: int
    fp: int
    fn: int
    tn: int  # always 0 for boxes: nobody can count those that were rightly not drawn
    metrics: Estimates

    @classmethod
    def of(cls, counts: rates.Counts, names: Sequence[str], level: float) -> CountedRates:
        """From counts under weights [1 + R]; `names` are the rates that make sense of them."""
        tp, fp, fn, tn = (int(part[0]) for part in (counts.tp, counts.fp, counts.fn, counts.tn))
        every = rates.all_rates(counts)
        return cls(tp, fp, fn, tn, {name: estimate(every[name], level) for name in names})


@dataclass(frozen=True)
class BoxClass:
    """At the confidence threshold and IoU 0.5."""

    boxes: CountedRates
    mean_iou_of_true_positives: float | None
    frames_presence: CountedRates
    frames_presence_and_place: CountedRates
    froc: Estimates  # sensitivity by false boxes a frame


@dataclass(frozen=True)
class SizeRecall:
    boxes: int
    found: int
    recall: float | None


@dataclass(frozen=True)
class PatientScores:
    """None: not evaluable, because histology is missing."""

    patients: int
    lesions: int
    metrics: dict[str, Estimate | None]


@dataclass(frozen=True)
class VideoJitter:
    """Steps of detected centers between frames, and what of them is not true motion."""

    steps: int
    mean_px: float
    mean_residual_px: float | None


@dataclass(frozen=True)
class VideoScores:
    videos: int
    frames: int
    latency: LatencySummary | None
    mean_latency_seconds: float | None
    jitter: VideoJitter | None
    alarms_per_minute: float | None


@dataclass(frozen=True, kw_only=True)
class BoxScores(_Scores):
    true_boxes: dict[str, int]
    boxes: dict[str, int]
    confidence_threshold: float
    profiles: dict[str, BoxProfileScores]
    per_class: dict[str, BoxClass]
    centers: Centers | None
    by_size: dict[str, SizeRecall]
    patients: PatientScores | None
    videos: VideoScores | None
    type: Literal["detection"] = "detection"


@dataclass(frozen=True)
class SizeDice:
    images: int
    dice: float | None


@dataclass(frozen=True)
class MaskClass:
    """Frames are found by DAGI's rule: 40% of the finding's pixels marked."""

    mean_over_images: Estimates
    mean_over_images_with_a_finding: Estimates
    pooled_pixels: Estimates
    images_without_finding: int
    left_empty: int
    correct_nothing: Estimate
    frame_sensitivity: float | None
    frame_specificity: float | None
    ranking: Estimates  # the score of each challenge, by its name
    by_size: dict[str, SizeDice]


@dataclass(frozen=True, kw_only=True)
class MaskScores(_Scores):
    profiles: dict[str, ProfileScores]  # the score of each challenge, as a mean over classes
    per_class: dict[str, MaskClass]
    mean_iou_of_classes: dict[str, float | None]
    centers: Centers | None
    type: Literal["segmentation"] = "segmentation"


@dataclass(frozen=True)
class PointClass:
    """At the confidence threshold: findings with a point, points outside, findings without one; and frames."""

    points: CountedRates
    frames_presence: CountedRates


@dataclass(frozen=True, kw_only=True)
class PointScores(_Scores):
    findings: dict[str, int]
    confidence_threshold: float
    profiles: dict[str, ProfileScores]
    per_class: dict[str, PointClass]
    centers: Centers | None
    latency: LatencySummary | None
    mean_latency_seconds: float | None
    type: Literal["localization"] = "localization"


Scores = LabelScores | BoxScores | MaskScores | PointScores


@dataclass(frozen=True)
class Results:
    """A scored submission."""

    submission: Submission
    scores: Annotated[Scores, Field(discriminator="type")]
    warnings: list[str] = field(default_factory=list)
    format: Literal[2] = 2

    @property
    def metrics(self) -> Estimates:
        """In the averages of the chosen profile."""
        return self.scores.profiles[self.submission.profile].metrics


def write_results(out: Path, results: Results) -> None:
    write_document(out / RESULTS, results)


def read_results(folder: Path) -> Results:
    """Of a folder that `challenge score` wrote, or of its results.json."""
    path = folder / RESULTS if folder.is_dir() else folder
    results = read_document(Results, path, "a file of results that 'challenge score' wrote")
    if results.submission.profile not in results.scores.profiles:
        raise UserError(
            f"cannot read {path}: it has no metrics of its profile {results.submission.profile}; score again."
        )
    return results
