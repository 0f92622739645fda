"""results.json of `panendofm dense`: every metric of every network on every test set."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from panendofm.records.documents import read_document, write_document
from panendofm.scoring.statistics.estimates import Estimate


@dataclass(frozen=True)
class ClassMasks:
    """Metrics of one class's masks, by name."""

    images: int
    with_finding: int
    mean_over_images: dict[str, Estimate]
    mean_over_images_with_a_finding: dict[str, Estimate]
    pooled_pixels: dict[str, float | None]
    left_empty: float | None  # share of the images without a finding where nothing is reported


@dataclass(frozen=True)
class MaskResults:
    """Means over classes, on images with a finding."""

    iou: Estimate
    dice: Estimate
    per_class: dict[str, ClassMasks]


@dataclass(frozen=True)
class ClassBoxes:
    map: float
    map_50: float
    map_75: float


@dataclass(frozen=True)
class BoxResults:
    """COCO's average precision, means over classes."""

    map_50: Estimate
    map: Estimate
    per_class: dict[str, ClassBoxes]


@dataclass(frozen=True)
class SetResults:
    """A network on one test set; no masks where the dataset gives none."""

    images: int
    groups: int
    detection: dict[str, BoxResults]  # by detector
    segmentation: MaskResults | None = None


@dataclass(frozen=True)
class DenseNetwork:
    name: str
    word: str  # the network spec, without folders
    architecture: str
    weights_sha256: str
    grid: tuple[int, int]  # of its feature maps
    side_px: int


@dataclass(frozen=True)
class FoldCounts:
    name: str
    train: int
    validation: int
    tests: dict[str, int]


@dataclass(frozen=True)
class TriedHead:
    head: str
    settings: str
    validation: float


@dataclass(frozen=True)
class NetworkResults:
    """A network on a fold."""

    network: str
    fold: str
    head: str
    thresholds: list[float]
    detect_with: str  # the better detector on validation
    detection_head: str  # how it was chosen; empty without one
    tried: list[TriedHead]
    tests: dict[str, SetResults]


@dataclass(frozen=True)
class DensePairedTest:
    """The difference of IoU of two networks on a test set; None where no replicate tells."""

    test: str
    a: str
    b: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    p_corrected: float | None  # over test sets, by Holm


@dataclass(frozen=True)
class DenseResults:
    classes: list[str]
    networks: list[DenseNetwork]
    notes: list[str]  # to be read beside the metrics
    folds: list[FoldCounts]
    results: list[NetworkResults]
    paired_tests: list[DensePairedTest]
    leaks: dict[str, int] | None = None  # test images with a near-duplicate in training, of a split that leaks
    confidence: float = 0.95  # of the intervals
    format: int = 2

    def of(self, network: str, fold: str) -> NetworkResults:
        return next(found for found in self.results if (found.network, found.fold) == (network, fold))


def read_dense_results(path: Path) -> DenseResults:
    return read_document(DenseResults, path, "the results of `panendofm dense`")


def write_dense_results(path: Path, results: DenseResults) -> None:
    write_document(path, results)
