"""The evaluations of a run: `RUN/eval/knn_CHECKPOINT.json`, one per checkpoint, and the link `RUN/best`.

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
from typing import Any

from eval_knn.evaluator import FORMAT, evaluation_of
from eval_knn.networks import is_whole_checkpoint
from eval_knn.selection import Choice, Evaluation, SelectionConfig, Stop, against_start, select, should_stop
from runtime.errors import UserError, naming_path
from runtime.files import make_directory, read_json, replace_link, write_json

SELECTION_FILE = "knn_selection.json"


def run_of(checkpoint: Path) -> Path | None:
    """The run that a checkpoint lies in."""
    parent = checkpoint.resolve().parent
    return parent.parent if parent.name == "checkpoints" and is_whole_checkpoint(checkpoint.resolve()) else None


def result_path(run: Path, checkpoint: str) -> Path:
    return run / "eval" / f"knn_{checkpoint}.json"


def read_result(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if not isinstance(document, dict) or document.get("format") != FORMAT or "k" not in document:
        raise UserError(
            f"{path} is not a kNN result of this version; remove it to have the checkpoint evaluated again."
        )
    return document


def read_documents(run: Path) -> list[dict[str, Any]]:
    """All results of a run, in the order of training."""
    paths = [path for path in (run / "eval").glob("knn_*.json") if path.name != SELECTION_FILE]
    documents = [read_result(path) for path in paths]
    return sorted(documents, key=lambda d: (-1 if d["step"] is None else d["step"], d["checkpoint"]))


def read_history(run: Path) -> list[Evaluation]:
    return [evaluation_of(document) for document in read_documents(run)]


def record(run: Path, document: dict[str, Any], selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """Store a result, point `best` at the chosen checkpoint, and say whether to stop. First rank only."""
    for other in read_documents(run):
        if other["data"]["split_sha256"] != document["data"]["split_sha256"]:
            raise UserError(
                f"{run / 'eval'} holds results on another split or other images ({other['checkpoint']}), which this "
                "one can't be compared with; use the same data and split, or set out=FOLDER to keep it apart."
            )
    write_json(result_path(run, document["checkpoint"]), document)
    return update_best(run, selection)


def update_best(run: Path, selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """Choose among the evaluated checkpoints that exist; None when none of them does (any more)."""
    with claim(run, "selection", wait=True):
        history = read_history(run)
        stop = should_stop(history, selection)
        kept = [e for e in history if is_whole_checkpoint(run / "checkpoints" / e.checkpoint)]
        if not kept:
            return None, stop
        choice = select(kept, selection)
        write_json(
            run / "eval" / SELECTION_FILE,
            {
                **choice.to_dict(),
                "metric": selection.metric,
                "stop": stop.stop,
                "stop_why": stop.why,
                "evaluated": len(history),
                "against_start": against_start(history, selection),
            },
        )
        replace_link(run / "best", Path("checkpoints") / choice.evaluation.checkpoint)
        return choice, stop


@contextmanager
def claim(run: Path, name: str, wait: bool = False) -> Iterator[bool]:
    """Hold `name` for this process; gives False when another process has it.

    The claim is a lock of the kernel on a small file: it ends with its process, however that ends. So a killed
    watcher's work is free at once, and no clock decides what is stale.
    """
    path = make_directory(run / "eval" / ".claims") / f"{name}.lock"
    with naming_path("lock", path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        yield True
    finally:
        os.close(descriptor)


def pending(run: Path, finished: Sequence[Path]) -> list[Path]:
    """Checkpoints without a result."""
    return [path for path in finished if not result_path(run, path.name).is_file()]
