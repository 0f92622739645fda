"""results.json of a probing: every metric of every network on every task. Tables and pages are made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from panendofm.atlas import SplitReport
from panendofm.records.documents import read_document, write_document
from panendofm.records.shards import Certificate
from panendofm.scoring.statistics.estimates import Estimate

# Metrics that a task and a network have one of, in the order of the tables.
SUMMARY = (
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "sensitivity",
    "specificity",
    "ppv",
    "npv",
    "f1",
    "mcc",
)


@dataclass(frozen=True)
class MacroAuc:
    """The mean AUC over `classes` classes; None where no class is evaluable."""

    macro: float | None
    low: float | None
    high: float | None
    classes: int


@dataclass(frozen=True)
class CalibrationError:
    ece: float | None
    brier: float | None


@dataclass(frozen=True)
class Calibration:
    """Before and after the logits are divided by a temperature that was fitted on validation."""

    temperature: float
    before: CalibrationError
    after: CalibrationError


@dataclass(frozen=True)
class ClassMetrics:
    positives: int
    evaluable: bool
    auc: float | None
    low: float | None
    high: float | None
    average_precision: float | None
    sensitivity: float | None
    specificity: float | None
    ppv: float | None
    npv: float | None
    f1: float | None
    mcc: float | None


@dataclass(frozen=True)
class SubgroupAuc:
    """On the images of one dataset, center, country, instrument or quality.

    Over the classes that can be told apart inside it; `difference` is to all images, over the same classes.
    """

    kind: str
    name: str
    images: int
    groups: int
    classes: int
    auc: Estimate
    difference: Estimate


@dataclass(frozen=True)
class LeftOutDataset:
    """Trained on all other datasets, without near-duplicates of this one, and tested on all of this one."""

    dataset: str
    training_images: int
    images: int
    classes: int
    auc: Estimate


@dataclass(frozen=True)
class SeedSpread:
    """The macro-AUC of heads that differ in their seed alone; the first is the one of all other metrics."""

    values: list[float]
    mean: float
    deviation: float  # standard deviation, 0 for one seed


@dataclass(frozen=True)
class ConfusedPair:
    """Images that show `truth` and were taken for `answer`; the share is of all images of `truth`."""

    level: str
    truth: str
    answer: str
    images: int
    of: int
    share: Estimate
    examples: list[str]  # checksums of the surest mistakes


@dataclass(frozen=True)
class TreeErrors:
    """Of a task with several levels, by its last one: where the answer leaves the path of the truth.

    `wrong_at`: share of images whose first wrong level is this. `distance`: levels from there to the end, 0 if right.
    """

    images: int
    right: Estimate
    wrong_at: dict[str, Estimate]
    distance: Estimate


@dataclass(frozen=True)
class SubsetAuc:
    """On the images that are left when some are left out: seen in training, perhaps, or of poor quality."""

    images: int
    left_out: int
    classes: int
    macro: float | None
    low: float | None
    high: float | None
    mcc: float | None = None


@dataclass(frozen=True)
class RiskCoverage:
    """Share of wrong answers when only the surest are given; `risk` by the share that is answered."""

    risk: dict[str, Estimate]
    area: float


@dataclass(frozen=True)
class ChosenHead:
    head: str
    validation_auc: float


@dataclass(frozen=True)
class TriedHead:
    head: str
    validation_auc: float
    validation_loss: float


@dataclass(frozen=True)
class LabelFraction:
    """After training on a share of the labels; MCC where an image has one answer."""

    share: float
    images: int
    auc: Estimate
    mcc: Estimate | None = None


@dataclass(frozen=True)
class Uncleaned:
    """The macro-AUC of images as they came, and what cleaning changes."""

    macro: float | None
    low: float | None
    high: float | None
    difference: float
    difference_low: float | None
    difference_high: float | None


@dataclass(frozen=True)
class TaskMetrics:
    """A network on the test side of a task; None where a metric is not evaluable."""

    images: int
    groups: int
    auc: MacroAuc
    levels: dict[str, MacroAuc]  # of a task with several
    average_precision: float | None
    accuracy: float | None
    balanced_accuracy: float | None
    sensitivity: float | None
    specificity: float | None
    ppv: float | None
    npv: float | None
    f1: float | None
    mcc: float | None
    calibration: Calibration
    per_class: dict[str, ClassMetrics]
    subgroups: list[SubgroupAuc]
    confused: list[ConfusedPair]
    chosen: ChosenHead
    tried: list[TriedHead]
    without_pretraining_overlap: SubsetAuc | None = None
    without_crossing_groups: SubsetAuc | None = None
    without_poor_images: SubsetAuc | None = None
    tree_errors: TreeErrors | None = None
    seeds: SeedSpread | None = None
    left_out_datasets: list[LeftOutDataset] = field(default_factory=list)
    risk_coverage: RiskCoverage | None = None  # of a task with one answer an image
    label_fractions: list[LabelFraction] = field(default_factory=list)
    as_they_came: Uncleaned | None = None  # where images were cleaned


@dataclass(frozen=True)
class Efficiency:
    """How fast a network is on the device that was used; decoding is not counted."""

    device: str
    parameters: int
    latency_ms: float  # one image at a time, median
    images_per_second: float  # in batches


@dataclass(frozen=True)
class ProbedNetwork:
    name: str
    word: str  # the network spec, without folders
    architecture: str
    weights_sha256: str
    certificate: Certificate | None
    efficiency: Efficiency


@dataclass(frozen=True)
class ClassCounts:
    evaluable: bool
    train: int
    validation: int
    test: int


@dataclass(frozen=True)
class TaskCounts:
    """What a task states of itself: classes and images on each side."""

    title: str
    classes: int
    evaluable_classes: int
    classes_without_images: list[str]
    images: dict[str, int]
    left_out_contradictory: int
    per_class: dict[str, ClassCounts]


@dataclass(frozen=True)
class PairedTest:
    """Two networks on a task; p-values are None where no replicate tells."""

    task: str
    a: str
    b: str
    difference: float
    difference_low: float | None
    difference_high: float | None
    p: float | None
    p_corrected: float | None  # over all tasks and pairs of networks, by Holm


@dataclass(frozen=True)
class ProbeResults:
    protocol: str
    models: list[ProbedNetwork]
    tasks: dict[str, TaskCounts]
    not_evaluable: dict[str, str]  # task, and why
    results: dict[str, dict[str, TaskMetrics]]  # by task, then by network
    paired_tests: list[PairedTest]
    split: SplitReport
    confidence: float = 0.95  # of the intervals
    task_set: str = "clean"  # classes of the tasks


def read_probe_results(path: Path) -> ProbeResults:
    return read_document(ProbeResults, path, "the results of a linear probe")


def write_probe_results(path: Path, results: ProbeResults) -> None:
    write_document(path, results)
