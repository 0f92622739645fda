"""What `python -m eval_knn NETWORK…` does: score checkpoints, show them in one table, store what was found."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

from eval_knn.config import EvalConfig
from eval_knn.evaluator import Evaluator, Result, on_first_rank, shown_k
from eval_knn.report.console import show_choice, show_cleaning, show_comparison, show_details
from eval_knn.run_history import record_by_hand
from panendofm.backbone.networks import Network, find_network
from panendofm.records.evaluation import images_folder, lone_evaluation_name, read_evaluations, write_evaluation
from panendofm.records.run import RunFolder, run_of
from panendofm.runtime.console import is_main_process, say
from panendofm.runtime.errors import UserError

RESULTS_FOLDER = "eval_results"


def score_on_ranks(specs: list[str], config: EvalConfig) -> None:
    """`score`, on all ranks of torchrun where there are several."""
    with_ranks = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if with_ranks:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    # On an error the ranks don't wait for one another: the one that failed ends, and torchrun ends the others.
    score(specs, config)
    if with_ranks:
        dist.barrier()
        dist.destroy_process_group()


def checkpoints_of(spec: str) -> list[str]:
    """A run stands for its latest and its best checkpoint; every other spec for itself."""
    run = RunFolder(Path(spec))
    if not run.is_run():
        return [spec]
    finished = run.whole_checkpoints()
    if not finished:
        raise UserError(f"the run {run.path} has no finished checkpoint yet; wait for its first one.")
    latest, best = finished[-1], run.selected()
    return [str(latest)] if best is None or best == latest.resolve() else [str(latest), str(best)]


def score(specs: list[str], config: EvalConfig) -> None:
    """Evaluate networks, in one table."""
    cache = config.cache_folder()
    concrete = on_first_rank(lambda: list(dict.fromkeys(c for spec in specs for c in checkpoints_of(spec))), None)
    networks = [find_network(spec, cache) for spec in concrete]
    if config.data.clean is None:
        config.data.clean = on_first_rank(lambda: any(_run_is_cleaned(network) for network in networks), None)
    evaluator = Evaluator(config)
    k = shown_k(config)
    documents, uncleaned = [], []
    for network in networks:
        result = evaluator.score(network)
        documents.append(result.document)
        if config.data.clean:
            # By the same features: else the difference would be that of two choices.
            uncleaned.append(evaluator.as_they_came().score(network, result.document.features).document)
        if is_main_process():
            show_details(result.document, k)
        on_first_rank(partial(_store, network, result, evaluator, config), None)
    show_comparison(documents, k)
    if uncleaned:
        show_cleaning(documents, uncleaned, k)


def _run_is_cleaned(network: Network) -> bool:
    """Whether the run of a checkpoint was evaluated on cleaned images, as its monitor does."""
    run = None if network.path is None else run_of(network.path)
    return run is not None and any(document.data.clean for document in read_evaluations(run))


def _store(network: Network, result: Result, evaluator: Evaluator, config: EvalConfig) -> None:
    # A run's own history holds one kind of features: other blocks are kept apart from it.
    own = config.out is None and config.features.own_output
    run = run_of(network.path) if network.path is not None and own else None
    if run is not None:
        choice, stop = record_by_hand(run, result.document, config.selection)
        folder = run.evaluations
        if choice is not None:
            show_choice(choice, stop)
    else:
        folder = Path(config.out or RESULTS_FOLDER)
        name = lone_evaluation_name(network.name, network.weights_sha256, result.document.features)
        write_evaluation(folder / name, result.document)
    say(f"results: {folder}")
    if config.plots:
        # matplotlib and scikit-learn take a second to import: only who wants plots waits for them.
        from eval_knn.report.plots import draw

        say(f"plots: {draw(result, evaluator, images_folder(folder, network.name), run)}")
