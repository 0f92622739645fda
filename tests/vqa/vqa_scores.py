"""Scoring as the verb does it, with typed results."""

from __future__ import annotations

from pathlib import Path

from panendofm.runtime.config import load_config
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.commands import score_bench
from panendofm.vqa.score.accuracy import results as accuracy
from panendofm.vqa.score.by_question import results as by_question
from panendofm.vqa.score.config import ScoreConfig


def score(bench: Bench, answers: list[Path], out: Path, replicates: int, *more: str) -> object:
    words = [f"out={out}", f"bootstrap.replicates={replicates}", *more]
    return score_bench(bench, answers, load_config(ScoreConfig, None, words))


def score_choices(
    bench: Bench, answers: list[Path], out: Path, replicates: int = 400, *more: str
) -> accuracy.AccuracyResults:
    """What was computed is what the file says."""
    results = score(bench, answers, out, replicates, *more)
    assert isinstance(results, accuracy.AccuracyResults) and accuracy.read_results(out) == results
    return results


def score_questions(
    bench: Bench, answers: list[Path], out: Path, replicates: int = 400, *more: str
) -> by_question.QuestionResults:
    results = score(bench, answers, out, replicates, *more)
    assert isinstance(results, by_question.QuestionResults) and by_question.read_question_results(out) == results
    return results
