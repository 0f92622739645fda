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
from dataclasses import asdict, fields, replace
from pathlib import Path

from eval_knn.config import SelectionConfig
from eval_knn.evaluation_sets import vetoed_checkpoints
from eval_knn.evaluator import evaluation_of
from eval_knn.selection import Choice, Evaluation, Stop, against_start, select, should_stop
from panendofm.records.evaluation import (
    KnnDocument,
    SelectionDocument,
    evaluation_path,
    read_evaluations,
    read_selection,
    write_evaluation,
    write_selection,
)
from panendofm.records.run import RunFolder, is_whole_checkpoint
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError, naming_path
from panendofm.runtime.files import make_directory, replace_link
from panendofm.runtime.locks import NO_FLOCK


def read_history(run: RunFolder) -> list[Evaluation]:
    """The evaluations on the set that selects, with what the other sets veto."""
    vetoed = vetoed_checkpoints(run)
    history = [evaluation_of(document) for document in read_evaluations(run)]
    return [replace(one, vetoed=vetoed.get(one.checkpoint, "")) for one in history]


def record(
    run: RunFolder, document: KnnDocument, selection: SelectionConfig, witnesses: Sequence[KnnDocument] = ()
) -> tuple[Choice | None, Stop]:
    """Store a checkpoint's results, point `best` at the chosen one, and say whether to stop. First rank only.

    `document`: on the set that selects. It is written last: where it is, the others are too.
    """
    for witness in witnesses:
        _refuse_incomparable(run, witness, witness.evaluation_set)
        write_evaluation(evaluation_path(run, witness.checkpoint, witness.evaluation_set), witness)
    _refuse_incomparable(run, document)
    write_evaluation(evaluation_path(run, document.checkpoint), document)
    return update_best(run, selection)


def record_by_hand(run: RunFolder, document: KnnDocument, selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """The same for a result that somebody asked for beside the run's own monitor.

    What that has found of these weights stays, and so does the rule by which it chooses: a look at a run must not move
    its `best`. `selection` is for runs that nobody has chosen in yet.
    """
    _refuse_incomparable(run, document)
    known = [other for other in read_evaluations(run) if other.checkpoint == document.checkpoint]
    # Of a model that was scored while it trained no checksum is known; its checkpoint has its name.
    if not any(other.weights_sha256 in ("", document.weights_sha256) for other in known):
        write_evaluation(evaluation_path(run, document.checkpoint), document)
    return update_best(run, _own_rule(run, selection))


def recorded_rule(run: RunFolder, asked: SelectionConfig | None = None) -> SelectionConfig | None:
    """The rule by which the run's checkpoint was chosen last; `asked` where nobody has chosen yet."""
    chosen = read_selection(run)
    if chosen is None:
        return asked
    known = {field.name for field in fields(SelectionConfig)}
    kept = {name: value for name, value in chosen.rule.items() if name in known}
    return SelectionConfig(**kept) if kept else replace(asked or SelectionConfig(), metric=chosen.metric)


def _own_rule(run: RunFolder, asked: SelectionConfig) -> SelectionConfig:
    own = recorded_rule(run, asked) or asked
    if own != asked:
        say(
            f"{run.best} is chosen by the run's own rule ({own.metric}) and not by this command's selection; "
            f"python -m eval_knn {run.path} watch=true chooses by another."
        )
    return own


def _refuse_incomparable(run: RunFolder, document: KnnDocument, witness: str | None = None) -> None:
    """All results of a run on one set are measured in one way: selection compares them."""
    for other in read_evaluations(run, witness):
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
        if other.temperature != document.temperature:
            raise UserError(
                f"{run.evaluations} holds results with temperature={other.temperature:g} ({other.checkpoint}), which "
                f"one with {document.temperature:g} can't be compared with; use the same, or set out=FOLDER to keep it "
                "apart."
            )
        lacking = [k for k in other.k if k not in document.k]
        if lacking:
            raise UserError(
                f"{run.evaluations} holds results at k = {', '.join(other.k)} ({other.checkpoint}), and this one has "
                f"none at {', '.join(lacking)}; add them to ks, or set out=FOLDER to keep it apart."
            )


def update_best(run: RunFolder, selection: SelectionConfig) -> tuple[Choice | None, Stop]:
    """Choose among the evaluated checkpoints that exist; None when none of them does (any more).

    Also for whoever starts: a process that was killed between its result and the link has left the choice of before.
    """
    with claim(run, "selection", wait=True):
        history, info = read_history(run), run.read_info()
        stop = should_stop(history, selection, 0 if info is None else info.patience_from_step)
        there = {e.checkpoint for e in history if is_whole_checkpoint(run.checkpoints / e.checkpoint)}
        kept = {e.checkpoint for e in history if e.checkpoint in there and not e.vetoed}
        if not kept:
            return None, stop
        choice = select(history, selection, kept)
        write_selection(
            run,
            SelectionDocument(
                checkpoint=choice.evaluation.checkpoint,
                step=choice.evaluation.step,
                why=choice.why,
                equals=choice.equals,
                highest=choice.highest,
                comparisons=choice.comparisons,
                metric=selection.metric,
                rule=asdict(selection),
                stop=stop.stop,
                stop_why=stop.why,
                evaluated=len(history),
                against_start=against_start(history, selection),
                evaluation_set=read_evaluations(run)[-1].evaluation_set,
                vetoed={e.checkpoint: e.vetoed for e in history if e.vetoed},
            ),
        )
        target = (run.checkpoints / choice.evaluation.checkpoint).relative_to(run.path)
        if not (run.best.is_symlink() and run.best.readlink() == target):
            replace_link(run.best, target)
        return choice, stop


def finish_update(run: RunFolder, selection: SelectionConfig) -> None:
    """Make the choice that a process has left open which was killed between its result and the link."""
    evaluated = len(read_evaluations(run))
    chosen = read_selection(run)
    is_current = chosen is not None and chosen.evaluated == evaluated and run.best.resolve().name == chosen.checkpoint
    if evaluated and not is_current:
        update_best(run, selection)


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
