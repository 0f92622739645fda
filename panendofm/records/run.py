"""A run folder: where everything lies in it, what its checkpoints are called, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from panendofm.records.documents import read_document, write_document
from panendofm.records.folder import Inside
from panendofm.records.shards import Certificate, CorpusFrames
from panendofm.runtime.console import warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import damage_checksum

# A stage that saved its work and wants to be started again ends with this code (sysexits.h: EX_TEMPFAIL).
EXIT_REQUEUE = 75

DESCRIPTION_NAME = "checkpoint.json"
# torch's index of a distributed checkpoint; its tensors lie in one .distcp file per rank beside it.
METADATA_NAME = ".metadata"
_STEP = re.compile(r"step_(\d{7,})")


def step_name(step: int) -> str:
    """The name of a step's checkpoint, and of all that belongs to it."""
    return f"step_{step:07d}"


def step_of(name: str) -> int | None:
    """The step of such a name; None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True)
class RunInfo:
    """run.json: what is known of a run once it has begun, and stays."""

    total_steps: int  # after which the run is over
    order_version: int  # of the data order: a run goes on with the one that it began with
    patience_from_step: int = 0  # evaluations before it use up no patience of early stopping
    corpora: list[CorpusFrames] | None = None  # of its shards; None in runs of before it was kept
    format: Literal[1] = 1


@dataclass(frozen=True)
class HeadsPhaseState:
    """How far a warm start is in the phase in which its heads alone train."""

    end: int  # step
    sum: float  # of the losses of the window
    count: int
    before: float | None  # mean of the window before


@dataclass(frozen=True)
class CheckpointInfo:
    """checkpoint.json: what a checkpoint is, and the files that make it whole."""

    step: int
    vit: dict[str, Any]
    preprocessing: dict[str, Any] | None = None
    certificate: Certificate | None = None
    images_seen: int | None = None
    world_size: int | None = None
    shards_sha256: str | None = None
    weights_sha256: str | None = None  # of the samples' own weights, where there are any
    teacher_sha256: str | None = None  # of a frozen network that the state does not hold
    skipped_steps: int = 0
    skipped_in_a_row: int = 0
    warm_start: HeadsPhaseState | None = None
    files: dict[str, int] = field(default_factory=dict)  # name and size in bytes
    checksums: dict[str, str] = field(default_factory=dict)  # of the files; empty in those of before there were any
    format: Literal[1] = 1


@dataclass(frozen=True)
class Rollback:
    """One time that a run went back to an earlier checkpoint."""

    number: int  # from 1
    why: str
    from_step: int
    to_step: int
    lr_factor: float  # of the recipe's learning rate, from `to_step` on
    time: float
    done: bool = False


@dataclass(frozen=True)
class Rollbacks:
    """rollbacks.json: every time that a run went back."""

    rollbacks: list[Rollback]
    format: int = 1


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run."""

    path: Path

    config = Inside("config.yaml")
    info = Inside("run.json")
    log = Inside("log.txt")
    metrics = Inside("metrics.jsonl")
    checkpoints = Inside("checkpoints")
    best = Inside("best")  # the link to the selected checkpoint
    evaluations = Inside("eval")

    @property
    def claims(self) -> Path:
        """Locks by which watchers share the checkpoints among them."""
        return self.evaluations / ".claims"

    rollbacks = Inside("rollbacks.json")

    def rolled_back(self, number: int) -> Path:
        """Where a rollback keeps what it has undone."""
        return self.path / "rolled_back" / str(number)

    non_finite = Inside("non_finite.json")  # the samples and ranks of the steps that ended a run as not finite
    report = Inside("report.html")
    images = Inside("images")
    jobs = Inside("jobs")

    def student(self, name: str) -> RunFolder:
        """The run folder of a further student of a distillation: its checkpoints hold its moving average alone."""
        return RunFolder(self.path / "students" / name)

    def job(self, stage: str) -> Path:
        """The record of a stage that was launched for this run, with its logs and its stored config."""
        return self.jobs / stage

    def job_config(self, stage: str) -> Path:
        """The resolved config that the stage's job reads: later edits of the user's file don't change a queued job."""
        return self.job(stage) / self.config.name

    def is_run(self) -> bool:
        return self.checkpoints.is_dir()

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / step_name(step)

    def steps(self) -> list[int]:
        """Steps of the checkpoint folders that are there, newest first; they may be damaged."""
        names = [path.name for path in self.checkpoints.iterdir()] if self.is_run() else []
        return sorted((step for name in names if (step := step_of(name)) is not None), reverse=True)

    def whole_checkpoints(self) -> list[Path]:
        """The finished checkpoints, in the order of training."""
        paths = [self.checkpoint(step) for step in reversed(self.steps())]
        return [path for path in paths if is_whole_checkpoint(path)]

    def selected(self) -> Path | None:
        """The checkpoint that `best` points at, when it is there and whole."""
        return self.best.resolve() if is_whole_checkpoint(self.best.resolve()) else None

    def selected_or_latest(self) -> Path:
        """The selected checkpoint, else the latest whole one."""
        selected = self.selected()
        if selected is not None:
            return selected
        for path in reversed(self.whole_checkpoints()):
            fault = fault_of_files(path, read_checkpoint_info(path))
            if fault is None:
                return path
            warn(f"the checkpoint {path} is passed over: {fault}.")
        raise UserError(f"the run {self.path} has no complete checkpoint yet; wait for one, or name another run.")

    def read_info(self) -> RunInfo | None:
        """None for a run that has not begun, or that began before runs kept this file."""
        return read_document(RunInfo, self.info, "the record of a run") if self.info.is_file() else None

    def write_info(self, info: RunInfo) -> None:
        write_document(self.info, info)

    def read_rollbacks(self) -> list[Rollback]:
        if not self.rollbacks.is_file():
            return []
        return read_document(Rollbacks, self.rollbacks, "a list of rollbacks").rollbacks

    def write_rollbacks(self, entries: list[Rollback]) -> None:
        write_document(self.rollbacks, Rollbacks(entries))


def find_runs(root: Path) -> list[RunFolder]:
    """Runs at or below `root`: folders that have jobs or a training's metrics."""
    names = RunFolder(Path())
    jobs = [path for path in root.rglob(names.jobs.name) if path.is_dir() and any(path.iterdir())]
    # The copy of the code that a job keeps among its files has a package of that name, too.
    with_jobs = {path.parent for path in jobs if names.jobs.name not in path.relative_to(root).parent.parts}
    trained = {path.parent for path in root.rglob(names.metrics.name)}
    return [RunFolder(path) for path in sorted(with_jobs | trained)]


def patch_image(run: RunFolder, step: int) -> Path:
    """What the features of a step's checkpoint see, as an image."""
    return run.images / f"patches_{step_name(step)}.png"


def patch_images(run: RunFolder) -> list[tuple[int, Path]]:
    """(step, image) of those that were drawn, in the order of training."""
    found = []
    for path in run.images.glob("patches_*.png"):
        step = step_of(path.stem.removeprefix("patches_"))
        if step is not None:
            found.append((step, path))
    return sorted(found)


def is_whole_checkpoint(path: Path) -> bool:
    """A checkpoint folder that its writer has finished: its real name, with its description and its index."""
    return not path.name.startswith(".") and (path / DESCRIPTION_NAME).is_file() and (path / METADATA_NAME).is_file()


def tensor_files(path: Path) -> list[Path]:
    """The files that hold a checkpoint's tensors, one per rank that wrote it."""
    return sorted(path.glob("*.distcp"))


def looks_like_checkpoint(path: Path) -> bool:
    """Whether a folder is a checkpoint or the rest of one, finished or not."""
    own = (path / DESCRIPTION_NAME).is_file() or (path / METADATA_NAME).is_file()
    return path.is_dir() and (own or bool(tensor_files(path)))


def refuse_half_written(path: Path) -> None:
    """One sentence for a folder that looks like a checkpoint but is not finished."""
    if looks_like_checkpoint(path) and not is_whole_checkpoint(path):
        raise UserError(
            f"the checkpoint {path} is not finished (a temporary name, or {DESCRIPTION_NAME} or {METADATA_NAME} is "
            "missing); wait until it is written, or name another one."
        )


def run_of(checkpoint: Path) -> RunFolder | None:
    """The run that a checkpoint lies in; None for one that stands alone."""
    parent = checkpoint.resolve().parent
    run = RunFolder(parent.parent)
    return run if parent == run.checkpoints else None


# Files that were found whole, by their stamp: weights are not read twice to be verified.
_VERIFIED: dict[Path, tuple[int, int, int]] = {}


def fault_of_files(checkpoint: Path, info: CheckpointInfo, names: Iterable[str] | None = None) -> str | None:
    """What is wrong with the files of a checkpoint, or with those of the given names, as a clause."""
    for name in sorted(info.files) if names is None else names:
        path, size = checkpoint / name, info.files[name]
        if Path(name).name != name or not path.is_file():
            return f"its file {name} is missing"
        status = path.stat()
        if status.st_size != size:
            return f"its file {name} has {status.st_size} bytes instead of {size}"
        stamp = (status.st_size, status.st_mtime_ns, status.st_ino)
        if name not in info.checksums or _VERIFIED.get(path.resolve()) == stamp:
            continue
        if damage_checksum(path) != info.checksums[name]:
            return f"its file {name} is damaged (another checksum than when it was written)"
        _VERIFIED[path.resolve()] = stamp
    return None


def read_checkpoint_info(checkpoint: Path) -> CheckpointInfo:
    return read_document(CheckpointInfo, checkpoint / DESCRIPTION_NAME, "the description of a checkpoint")


def write_checkpoint_info(checkpoint: Path, info: CheckpointInfo) -> None:
    write_document(checkpoint / DESCRIPTION_NAME, info)
