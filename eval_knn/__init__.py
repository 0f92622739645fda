"""Checkpoint to score: kNN on a labelled set, selection of the best checkpoint, early stopping."""

from eval_knn.config import EvalConfig
from eval_knn.evaluator import Evaluator, Result, evaluate
from eval_knn.run_history import read_history, record
from eval_knn.selection import Choice, Evaluation, SelectionConfig, Stop, published_rule, select, should_stop

__all__ = [
    "Choice",
    "EvalConfig",
    "Evaluation",
    "Evaluator",
    "Result",
    "SelectionConfig",
    "Stop",
    "evaluate",
    "published_rule",
    "read_history",
    "record",
    "select",
    "should_stop",
]
