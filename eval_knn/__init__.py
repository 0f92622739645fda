"""Checkpoint to score: kNN on a labelled set, selection of the best checkpoint, early stopping."""

from eval_knn.config import EvalConfig
from eval_knn.evaluator import Evaluator, Result, evaluate
from eval_knn.neighbours import SearchConfig
from eval_knn.run_history import claim, read_history, record, update_best
from eval_knn.selection import (
    Choice,
    Evaluation,
    SelectionConfig,
    Stop,
    against_start,
    must_stay,
    paired_bootstrap,
    select,
    should_stop,
)
from eval_knn.vote import class_scores

__all__ = [
    "Choice",
    "EvalConfig",
    "Evaluation",
    "Evaluator",
    "Result",
    "SearchConfig",
    "SelectionConfig",
    "Stop",
    "against_start",
    "claim",
    "class_scores",
    "evaluate",
    "must_stay",
    "paired_bootstrap",
    "read_history",
    "record",
    "select",
    "should_stop",
    "update_best",
]
