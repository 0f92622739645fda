from .config import (
    EvalConfig,
    EvaluationSets,
    NamedSetConfig,
    SearchConfig,
    SelectionConfig,
    SetConfig,
    SeveralSetsConfig,
)
from .evaluation_sets import SetsEvaluator
from .evaluator import Evaluator, Result, evaluate
from .run_history import claim, finish_update, read_history, record, recorded_rule, update_best
from .search.vote import class_scores
from .selection import (
    Choice,
    Evaluation,
    Stop,
    against_start,
    fell_below,
    must_stay,
    paired_bootstrap,
    select,
    should_stop,
)

__all__ = [
    "Choice",
    "EvalConfig",
    "Evaluation",
    "EvaluationSets",
    "Evaluator",
    "NamedSetConfig",
    "Result",
    "SearchConfig",
    "SelectionConfig",
    "SetConfig",
    "SetsEvaluator",
    "SeveralSetsConfig",
    "Stop",
    "against_start",
    "claim",
    "class_scores",
    "evaluate",
    "fell_below",
    "finish_update",
    "must_stay",
    "paired_bootstrap",
    "read_history",
    "record",
    "recorded_rule",
    "select",
    "should_stop",
    "update_best",
]
