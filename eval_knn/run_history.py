"""The evaluations of a run, one per checkpoint, and the link to the best.

Several processes may write here at once (watchers, the trainer): result files are whole or absent, and the choice of
the best is made by one process at a time from all results that are there.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eval_knn.evaluator import evaluation_of
from eval_knn.selection import Choice, Evaluation, SelectionConfig, Stop, against_start, select, should_stop
from records.evaluation import (
    KnnDocument,
    SelectionDocument,
    evaluation_path,
    read_evaluations,
    write_evaluation,
    write_selection,
)
from records.run import RunFolder, is_whole_checkpoint
from runtime.errors import UserError, naming_path
from runtime.files import make_directory, replace_link
from runtime.locks import NO_FLOCK


def read_history(run: RunFolder) -> list[Evaluation]:
    return [evaluation_of(document) for document in read_evaluations(run)]


def record(run: RunFolder, document: KnnDocument, selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """Store a result, point `best` at the chosen checkpoint, and say whether to stop. First rank only."""
    for other in read_evaluations(run):
        if other.data.split_sha256 != document.data.split_sha256:
            raise UserError(
                f"{run.evaluations} holds results on another split, on other images or with another data.clean "
                f"({other.checkpoint}), which this one can't be compared with; use the same data and split, or set "
                "out=FOLDER to keep it apart."
            )
        if other.features != document.features:
            raise UserError(
                f"{run.evaluations} holds results of other features ({other.checkpoint}: {other.features}) than this "
                f"one ({document.features}); use the same block and pooling, or set out=FOLDER to keep it apart."
            )
    write_evaluation(evaluation_path(run, document.checkpoint), document)
    return update_best(run, selection)


def update_best(run: RunFolder, selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """Choose among the evaluated checkpoints that exist; None when none of them does (any more).

    Also for whoever starts: a process that was killed between its result and the link has left the choice of before.
    """
    with claim(run, "selection", wait=True):
        history, info = read_history(run), run.read_info()
        stop = should_stop(history, selection, 0 if info is None else info.patience_from_step)
        kept = {e.checkpoint for e in history if is_whole_checkpoint(run.checkpoints / e.checkpoint)}
        if not kept:
            return None, stop
        choice = select(history, selection, kept)
        write_selection(
            run,
            SelectionDocument(
                **choice.to_dict(),
                metric=selection.metric,
                stop=stop.stop,
                stop_why=stop.why,
                evaluated=len(history),
                against_start=against_start(history, selection),
            ),
        )
        target = (run.checkpoints / choice.evaluation.checkpoint).relative_to(run.path)
        if not (run.best.is_symlink() and run.best.readlink() == target):
            replace_link(run.best, target)
        return choice, stop


@contextmanager
def claim(run: RunFolder, name: str, wait: bool = False) -> Iterator[bool]:
    """Hold `name` for this process; gives False when another process has it.

    The claim is a lock of the kernel on a small file: it ends with its process, however that ends. So a killed
    watcher's work is free at once, and no clock decides what is stale.
    """
    path = make_directory(run.claims) / f"{name}.lock"
    with naming_path("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError as error:
            # Without flock two may evaluate the same checkpoint; results are whole and equal, so that only costs time.
            if error.errno not in NO_FLOCK:
                raise
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        yield True
    finally:
        os.close(descriptor)


def pending(run: RunFolder, finished: Sequence[Path]) -> list[Path]:
    """Checkpoints without a result."""
    return [path for path in finished if not evaluation_path(run, path.name).is_file()]
