"""kNN evaluations of a run's checkpoints: one document per labeled set and checkpoint, and which one was selected.

The set that selects has its documents in the run's evaluation folder. Every other set is a witness and has a folder of
its own name there. The selecting set's document is written last, so it says that a checkpoint is scored on all sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.records.documents import read_document, write_document
from panendofm.records.run import RunFolder
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import safe_name

METRICS = ("top1", "top5", "balanced_accuracy", "macro_f1", "mcc")
LABEL_FREE = ("rankme", "alpha_req")
DEFAULT_METRIC = "top1_k20"
OWN_OUTPUT = "output"  # features that the network gives by itself: no block or pooling was named
_PREFIX = "knn_"
_SELECTION = "knn_selection.json"
_IMAGES = "_images"

Verdict = Literal["better beyond noise", "worse beyond noise", "no difference beyond noise"]
WORSE: Verdict = "worse beyond noise"


@dataclass(frozen=True)
class MetricsAtK:
    """All metrics of one number of neighbors."""

    top1: float
    top5: float
    balanced_accuracy: float
    macro_f1: float
    mcc: float
    recall: dict[str, float | None]  # by class; None: no query of it
    confusion: list[list[int]]  # [true class][predicted class]
    classes_judged: int
    rank_of_truth: str  # a digit per query, see `encode_ranks`
    neighbors: int  # fewer than k where the gallery is smaller
    intervals: dict[str, tuple[float, float] | None] | None = None

    def interval(self, metric: str) -> tuple[float, float] | None:
        return (self.intervals or {}).get(metric)


@dataclass(frozen=True)
class EvaluatedData:
    """On which images and by which split."""

    path: str
    sha256: str
    classes: list[str]
    gallery: int
    queries: int
    unreadable: int
    split_file: str | None
    split_sha256: str
    leave_one_group_out: bool
    clean: bool = False  # whether images were read as training frames are


@dataclass(frozen=True)
class LeakageNote:
    """Whether the evaluated images were kept out of the training data; None: not known."""

    guarded: bool | None
    note: str


@dataclass(frozen=True)
class Evaluated:
    """When and for how long. On which machine is nobody's business: these documents are published."""

    at: str
    process: int
    seconds: float


@dataclass(frozen=True)
class FallRule:
    """What counts as a fall below the start: more than `margin`, and more than the noise of the queries."""

    metric: str
    margin: float
    confidence: float
    bootstrap_samples: int


@dataclass(frozen=True)
class KnnDocument:
    """The evaluation of one network on one labeled set."""

    checkpoint: str
    step: int | None
    path: str | None
    source: str
    architecture: str
    weights_sha256: str
    preprocessing: dict[str, Any]
    data: EvaluatedData
    temperature: float
    interval_confidence: float
    k: dict[str, MetricsAtK]
    query_groups: str  # the group of each query, with spaces between
    rankme: float
    alpha_req: float | None
    search_recall: float | None
    leakage: LeakageNote
    evaluated: Evaluated
    features: str = OWN_OUTPUT  # which block and pooling
    features_tried: dict[str, float] = field(default_factory=dict)  # top-1 within the gallery, where it was chosen
    evaluation_set: str = ""  # its name in the run; empty where it is the only one
    veto: FallRule | None = None  # a checkpoint that falls like this on the set is not selected
    format: Literal[1] = 1

    @property
    def values(self) -> dict[str, float | None]:
        """top1_k20, …, rankme: every metric under one name."""
        values: dict[str, float | None] = {
            f"{metric}_k{k}": getattr(at_k, metric) for k, at_k in self.k.items() for metric in METRICS
        }
        return values | {"rankme": self.rankme, "alpha_req": self.alpha_req}


@dataclass(frozen=True)
class AgainstStart:
    """A checkpoint against that of step 0, on the same queries."""

    difference: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class Comparison(AgainstStart):
    """The selected checkpoint against another one."""

    checkpoint: str
    role: str  # "start", "previous", "next"


@dataclass(frozen=True)
class SelectionDocument:
    """Which checkpoint was selected, why, and whether to stop."""

    checkpoint: str
    step: int | None
    why: str
    metric: str
    stop: bool
    stop_why: str
    evaluated: int
    rule: dict[str, Any] = field(default_factory=dict)  # all keys of `selection`; empty in older documents
    equals: list[str] = field(default_factory=list)
    highest: str | None = None  # the checkpoint of the highest value ever, which stays; None in older documents
    comparisons: list[Comparison] = field(default_factory=list)
    against_start: dict[str, AgainstStart] = field(default_factory=dict)
    evaluation_set: str = ""  # the set that selects; empty where it is the only one
    vetoed: dict[str, str] = field(default_factory=dict)  # checkpoints that were passed over, and why


def split_metric(name: str) -> tuple[str, int | None]:
    """("top1", 20) of "top1_k20"; label-free metrics have no k."""
    if name in LABEL_FREE:
        return name, None
    kind, _, k = name.rpartition("_k")
    if kind not in METRICS or not k.isdigit():
        raise UserError(
            f"selection: '{name}' is not a metric; there are {', '.join(METRICS[:-1])} and {METRICS[-1]} with "
            "their k, such as top1_k20, and rankme."
        )
    return kind, int(k)


def evaluation_path(run: RunFolder, checkpoint: str, witness: str | None = None) -> Path:
    """The document of a checkpoint on the set that selects, or on a witness."""
    folder = run.evaluations if witness is None else run.evaluations / witness
    return folder / f"{_PREFIX}{checkpoint}.json"


def evaluation_paths(run: RunFolder, checkpoint: str) -> list[Path]:
    """The documents of a checkpoint on all sets, as far as they are there."""
    paths = [evaluation_path(run, checkpoint, name) for name in (None, *witnesses_of(run))]
    return [path for path in paths if path.is_file()]


def evaluated_checkpoints(run: RunFolder) -> set[str]:
    """Those that have a document on any set, also when the evaluation was interrupted before the last set."""
    paths = [path for name in (None, *witnesses_of(run)) for path in _documents(run, name)]
    return {path.stem.removeprefix(_PREFIX) for path in paths}


def witnesses_of(run: RunFolder) -> list[str]:
    """The sets that the run's checkpoints were scored on besides the one that selects."""
    return sorted({path.parent.name for path in run.evaluations.glob(f"*/{_PREFIX}*.json")})


def check_set_name(name: str) -> None:
    """The name of a set is that of a folder beside documents and images of the set that selects."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name) or name.startswith(_PREFIX):
        raise UserError(
            f"evaluations: '{name}' can't name a set; use up to 64 letters, digits, - and _, and don't begin with "
            f"'{_PREFIX}'."
        )


def _documents(run: RunFolder, witness: str | None) -> list[Path]:
    paths = evaluation_path(run, "*", witness)
    return [path for path in paths.parent.glob(paths.name) if path.name != _SELECTION]


def lone_evaluation_name(network: str, weights_sha256: str, features: str = OWN_OUTPUT) -> str:
    """The file name of an evaluation that belongs to no run; of other features than the own output it names them."""
    read = "" if features == OWN_OUTPUT else f"_{safe_name(features.replace(' ', '-').replace(',', ''))}"
    return f"{_PREFIX}{safe_name(network)}_{weights_sha256[:8]}{read}.json"


def images_folder(folder: Path, network: str) -> Path:
    """Where the images of a network's evaluation go, beside its document."""
    return folder / f"{_PREFIX}{safe_name(network)}{_IMAGES}"


def image_files(run: RunFolder, pattern: str) -> list[tuple[str, Path]]:
    """(checkpoint, file) of the drawn images and pages of a run's evaluations."""
    paths = sorted(run.evaluations.glob(f"{_PREFIX}*{_IMAGES}/{pattern}"))
    return [(path.parent.name.removeprefix(_PREFIX).removesuffix(_IMAGES), path) for path in paths]


def read_evaluation(path: Path) -> KnnDocument:
    return read_document(KnnDocument, path, "a kNN result", "remove it to have the checkpoint evaluated again")


def read_evaluations(run: RunFolder, witness: str | None = None) -> list[KnnDocument]:
    """All evaluations of a run on the set that selects, or on a witness, in the order of training."""
    found = [_read_unless_gone(path) for path in _documents(run, witness)]
    documents = [document for document in found if document is not None]
    return sorted(documents, key=lambda d: (-1 if d.step is None else d.step, d.checkpoint))


def _read_unless_gone(path: Path) -> KnnDocument | None:
    """None for one that a rollback has taken away since it was listed."""
    try:
        return read_evaluation(path)
    except UserError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def write_evaluation(path: Path, document: KnnDocument) -> None:
    write_document(path, document)


def read_selection(run: RunFolder) -> SelectionDocument | None:
    """None for a run whose checkpoints were not evaluated yet."""
    path = run.evaluations / _SELECTION
    return read_document(SelectionDocument, path, "a selection of checkpoints") if path.is_file() else None


def write_selection(run: RunFolder, selection: SelectionDocument) -> None:
    """What is there already is not written again: whoever only looks in changes nothing."""
    try:
        is_there = read_selection(run) == selection
    except UserError:  # damaged, or of another version
        is_there = False
    if not is_there:
        write_document(run.evaluations / _SELECTION, selection)


def encode_ranks(rank: NDArray[np.int64]) -> str:
    """One digit per query (9 means 9 or more): compact in JSON and enough for top-1 and top-5."""
    return "".join(str(digit) for digit in np.minimum(rank, 9).tolist())


def decode_ranks(text: str) -> NDArray[np.int64]:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64) - ord("0")
