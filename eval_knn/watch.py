"""`watch=true`: evaluate each checkpoint of a run once, as it appears, and keep `best` up to date.

Any number of watchers may look at one run. A checkpoint belongs to the watcher that holds its claim; a result file
means that it is done, for all watchers and after restarts. A watcher that dies frees its claim, and another takes over.
"""

from __future__ import annotations

import time
from pathlib import Path

from eval_knn.config import EvalConfig
from eval_knn.evaluation_sets import SetsEvaluator
from eval_knn.evaluator import shown_k
from eval_knn.report.console import show_choice, show_comparison
from eval_knn.run_history import claim, pending, record, update_best
from panendofm.backbone.networks import find_network
from panendofm.records.evaluation import evaluation_path, read_evaluations
from panendofm.records.run import RunFolder, is_whole_checkpoint
from panendofm.runtime.console import say, warn
from panendofm.runtime.errors import UserError


def watch(path: Path, config: EvalConfig) -> None:
    """Look for new checkpoints until there has been nothing to do for `watcher.idle_seconds`."""
    run = RunFolder(path)
    if not path.is_dir():
        raise UserError(f"cannot watch {path}: it is not a folder; check the path.")
    earlier = read_evaluations(run)
    if config.data.clean is None:  # as the monitor that it stands in for
        config.data.clean = earlier[0].data.clean if earlier else True
    sets = config.watcher.sets_with(config)
    for one in (sets.selecting, *sets.witnesses.values()):
        one.features.refuse_choice("watch=true")
    evaluator = SetsEvaluator(run, sets)
    if earlier:
        update_best(run, sets.selection)
    say(f"watching {run.checkpoints}")
    failed: set[str] = set()
    idle_since = time.monotonic()
    while True:
        waiting = _waiting(run)
        failed &= {path.name for path in waiting}  # after a rollback the same name is another checkpoint
        todo = [path for path in waiting if path.name not in failed]
        for path in todo:
            with claim(run, path.name) as mine:
                # Since the list was made another watcher may have finished it, or training removed it.
                undone = mine and is_whole_checkpoint(path) and not evaluation_path(run, path.name).is_file()
                if undone and not _evaluate(run, path, evaluator):
                    failed.add(path.name)
        if todo:  # what is in other watchers' hands may come back to us
            idle_since = time.monotonic()
        idle_for = time.monotonic() - idle_since
        if not todo and config.watcher.idle_seconds is not None and idle_for >= config.watcher.idle_seconds:
            say(f"nothing new for {idle_for:.0f} s: done")
            return
        time.sleep(config.watcher.poll_seconds)


def _waiting(run: RunFolder) -> list[Path]:
    return pending(run, run.whole_checkpoints())


def _evaluate(run: RunFolder, path: Path, evaluator: SetsEvaluator) -> bool:
    """One checkpoint; one that can't be read (damaged, or removed meanwhile) is left alone, the watch goes on."""
    try:
        network = find_network(str(path), evaluator.cache)
        document, *witnesses = evaluator.score(lambda one: one.score(network)).documents
    except UserError as error:
        warn(f"{path.name} was not evaluated: {error}")
        return False
    sets = evaluator.sets
    choice, stop = record(run, document, sets.selection, witnesses)
    say(f"evaluated {path.name}")
    show_comparison([document], shown_k(sets.selecting))
    for witness in witnesses:
        show_comparison([witness], shown_k(sets.witnesses[witness.evaluation_set]))
    if choice is not None:
        show_choice(choice, stop)
    return True
