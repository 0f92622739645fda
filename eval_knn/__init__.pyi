from .config import EvalConfig, SearchConfig, SelectionConfig
from .evaluator import Evaluator, Result, evaluate
from .run_history import claim, read_history, record, update_best
from .search.vote import class_scores
from .selection import Choice, Evaluation, Stop, against_start, must_stay, paired_bootstrap, select, should_stop

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
