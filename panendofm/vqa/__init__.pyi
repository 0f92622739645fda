from .score.by_question.results import read_question_results

__all__ = [
    "read_question_results",
]
