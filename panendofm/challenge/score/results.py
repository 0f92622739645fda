"""results.json of a scored submission: what it holds, written and read here alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from panendofm.challenge.timing import Timing
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.files import sha256_of
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.estimates import Estimate

RESULTS = "results.json"
Interval = tuple[float, float]


@dataclass(frozen=True)
class Provenance:
    """Which files were compared: names without folders, and checksums."""

    truth: str
    truth_sha256: str
    submission: str
    submission_sha256: str

    @staticmethod
    def of(truth: Path, submission: Path) -> Provenance:
        return Provenance(truth.name, sha256_of(truth), submission.name, sha256_of(submission))


@dataclass(frozen=True)
class Submission:
    """Who answered, and how the answers were scored."""

    team: str
    task: str
    run: str
    profile: str
    provenance: Provenance
    bootstrap: BootstrapConfig
    training_images: int | None
    organizer: bool


@dataclass(frozen=True)
class Groups:
    """What the bootstrap drew: patients, videos, groups or images."""

    kind: str
    count: int


@dataclass(frozen=True)
class Generalization:
    """A center that was not in training against the others."""

    seen: float
    unseen: float
    gap: float
    deviation: float
    official_deviation: float


@dataclass(frozen=True)
class ProfileScores:
    """The metrics of one challenge."""

    about: str
    metrics: dict[str, Estimate]


# Labels


@dataclass(frozen=True)
class ClassCounts:
    """Sums or means over classes, as the challenge prints them."""

    tp: float
    tn: float
    fp: float
    fn: float


@dataclass(frozen=True)
class LabelProfileScores(ProfileScores):
    counts: ClassCounts


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
    recall: float | None
    precision: float | None
    specificity: float | None
    npv: float | None
    accuracy: float | None
    f1: float | None
    f2: float | None
    mcc: float | None
    recall_interval: Interval | None
    precision_interval: Interval | None

    @property
    def evaluable(self) -> bool:
        return self.images > 0


@dataclass(frozen=True)
class ConfidenceScores:
    """What the confidences are worth: calibration, and the error when only the surest are answered."""

    expected_calibration_error: float | None
    mean_confidence: float | None
    brier_of_the_answer: float | None
    risk_at_coverage: dict[str, Estimate]
    area_under_risk_coverage: float


@dataclass(frozen=True)
class SpeedScores:
    """From the times that the submission states."""

    fps: Estimate
    mean_ms: float
    median_ms: float
    p95_ms: float
    real_time: dict[str, bool]
    believable: bool
    source: str = "self-reported"


@dataclass(frozen=True)
class LevelScores:
    """Share of right answers by region and by category: some errors are less wrong than others."""

    mapping: str
    region: float
    category: float


@dataclass(frozen=True)
class SubsetScores:
    """The score of some of the images."""

    images: int
    correct: float
    mcc: float


@dataclass(frozen=True)
class WithoutListed(SubsetScores):
    left_out: int


@dataclass(frozen=True)
class LabelScores:
    n: int
    missing_counted_as_wrong: int
    classes: list[str]
    groups: Groups
    confusion: list[list[int]]  # [truth][answer], with one column more where answers are missing
    profiles: dict[str, LabelProfileScores]
    house: HouseScores
    per_class: dict[str, LabelClass]
    confidence: ConfidenceScores
    speed: SpeedScores | None
    levels: LevelScores | None
    centers: dict[str, SubsetScores]
    measured: Timing | None = None
    without_listed: WithoutListed | None = None
    type: Literal["classification"] = "classification"

    @property
    def answer_columns(self) -> list[str]:
        return [*self.classes, *(["(missing)"] if self.missing_counted_as_wrong else [])]


# Boxes


@dataclass(frozen=True)
class BoxProfileScores(ProfileScores):
    classes_with_truth: int
    ap: dict[str, dict[str, float | None]]  # by class and IoU threshold


@dataclass(frozen=True)
class BoxRates:
    tp: int
    fp: int
    fn: int
    metrics: dict[str, Estimate]
    mean_iou_of_true_positives: float | None


@dataclass(frozen=True)
class FrameRates:
    tp: int
    fp: int
    fn: int
    tn: int
    metrics: dict[str, Estimate]


@dataclass(frozen=True)
class BoxClass:
    """At the confidence threshold and IoU 0.5."""

    boxes: BoxRates
    frames_presence: FrameRates
    frames_presence_and_place: FrameRates
    froc: dict[str, Estimate]  # sensitivity by false boxes a frame


@dataclass(frozen=True)
class Centers:
    """The main metric of each center: a mean over centers hides the one where it fails."""

    metric: str
    values: dict[str, float | None]
    frames: dict[str, int]
    generalization: Generalization | None


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
class Latency:
    """From an object's first frame to its first true detection."""

    objects: int
    found: int
    missed: int
    mean_frames: float | None
    median_frames: float | None
    mean_seconds: float | None


@dataclass(frozen=True)
class Jitter:
    """Steps of detected centers between frames, and what of them is not true motion."""

    steps: int
    mean_px: float
    mean_residual_px: float | None


@dataclass(frozen=True)
class VideoScores:
    videos: int
    frames: int
    latency: Latency | None
    jitter: Jitter | None
    alarms_per_minute: float | None


@dataclass(frozen=True)
class BoxScores:
    n: int
    classes: list[str]
    true_boxes: dict[str, int]
    boxes: dict[str, int]
    groups: Groups
    confidence_threshold: float
    profiles: dict[str, BoxProfileScores]
    per_class: dict[str, BoxClass]
    centers: Centers | None
    by_size: dict[str, SizeRecall]
    patients: PatientScores | None
    videos: VideoScores | None
    type: Literal["detection"] = "detection"


# Masks


@dataclass(frozen=True)
class CorrectNothing:
    """Images without a finding that were left empty."""

    images_without_finding: int
    left_empty: int
    rate: Estimate


@dataclass(frozen=True)
class FrameVerdicts:
    sensitivity: float | None
    specificity: float | None
    rule: str = "40% of the finding's pixels marked"


@dataclass(frozen=True)
class SizeDice:
    images: int
    dice: float | None


@dataclass(frozen=True)
class MaskClass:
    mean_over_images: dict[str, Estimate]
    mean_over_images_with_a_finding: dict[str, Estimate]
    pooled_pixels: dict[str, Estimate]
    correct_nothing: CorrectNothing
    frame_verdicts: FrameVerdicts
    ranking: dict[str, Estimate]  # the score of each challenge, by its name
    by_size: dict[str, SizeDice]


@dataclass(frozen=True)
class MeanIou:
    pooled: float | None
    pooled_without_background: float | None
    mean_of_images: float | None


@dataclass(frozen=True)
class MaskScores:
    n: int
    classes: list[str]
    groups: Groups
    profiles: dict[str, ProfileScores]  # the score of each challenge, as a mean over classes
    per_class: dict[str, MaskClass]
    mean_iou_of_classes: MeanIou
    centers: Centers | None
    mm_per_px: float | None
    type: Literal["segmentation"] = "segmentation"


Scores = LabelScores | BoxScores | MaskScores


@dataclass(frozen=True)
class Results:
    """A scored submission."""

    submission: Submission
    scores: Annotated[Scores, Field(discriminator="type")]
    warnings: list[str] = field(default_factory=list)
    format: Literal[2] = 2

    @property
    def metrics(self) -> dict[str, Estimate]:
        """In the averages of the chosen profile."""
        return self.scores.profiles[self.submission.profile].metrics


def write_results(out: Path, results: Results) -> None:
    write_document(out / RESULTS, results)


def read_results(folder: Path) -> Results:
    """Of a folder that `challenge score` wrote, or of its results.json."""
    path = folder / RESULTS if folder.is_dir() else folder
    return read_document(Results, path, "a file of results that 'challenge score' wrote")
