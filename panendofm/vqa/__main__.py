"""panendofm vqa: benches of questions about endoscopy pictures."""

from __future__ import annotations

import argparse

from panendofm.runtime.command_line import Command, Stage, run_stage
from panendofm.vqa.bench.config import BuildConfig, ImportConfig
from panendofm.vqa.bench.rephrase_config import RephraseConfig
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.judge.config import JudgeConfig
from panendofm.vqa.score.config import ContestantConfig


def _score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="results", help="folder for tables and the page (results)")
    parser.add_argument("--allow-partial", action="store_true", help="score the questions that all contestants have")
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws of whole groups (1000)")
    parser.add_argument("--parse-mode", choices=["cascade", "first_letter"], default="cascade")
    parser.add_argument("--contamination", help="report of 'vqa contamination'")
    parser.add_argument("--people", help="folder of readers' answers (gi_bench)")
    parser.add_argument("--ratings", help="folder of ratings of texts (gi_bench)")
    parser.add_argument("--complete-cases", action="store_true", help="the paper's way beside ours (gi_bench)")


def _exam_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reader", required=True, help="a code such as junior-1, no name")
    parser.add_argument("--group", required=True, help="such as junior")
    parser.add_argument("--people", default="people", help="folder for the answers (people)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")


def _text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", help="folder of readers' answers, to rate their texts too")
    parser.add_argument("--human-subset", action="store_true", help="only pictures that people answer too")
    parser.add_argument("--blind", action="store_true", help="texts that were written without the picture too")


def _rate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rater", required=True, help="a code such as expert-1, no name")
    parser.add_argument("--ratings", default="ratings", help="folder for the ratings (ratings)")
    _text_options(parser)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")


def _judge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow-self", action="store_true", help="let a contestant be the judge; it is said then")
    parser.add_argument("--no-reference", action="store_true", help="rate texts without a reference, without accuracy")
    _text_options(parser)


def _contamination_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", action="append", default=[], help="a shard set; may be given several times")
    parser.add_argument("--pictures", action="append", default=[], help="a folder of pictures; several times too")
    parser.add_argument("--out", default="contamination.json", help="report to write (contamination.json)")


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--form", default="huggingface", help="huggingface (default), vlmevalkit, lmms-eval or jsonl")
    parser.add_argument("--out", required=True, help="folder to write; it must not exist")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws of whole groups (1000)")


def _review_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="review.html", help="page to write (review.html)")


def _synthesize_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, help="folder for answers/ and people/")


COMMANDS = (
    Command("build", "Make a bench of questions from an atlas.", "panendofm.vqa.commands:run_build", (), BuildConfig),
    Command(
        "import",
        "Make a bench from a TSV in EndoBench's style.",
        "panendofm.vqa.commands:run_import",
        ("TSV",),
        ImportConfig,
    ),
    Command(
        "export",
        "Write a bench for other tools.",
        "panendofm.vqa.commands:run_export",
        ("BENCH",),
        None,
        _export_options,
    ),
    Command(
        "check",
        "Look for shortcuts and damage in a bench.",
        "panendofm.vqa.commands:run_check",
        ("BENCH",),
        None,
        _check_options,
    ),
    Command(
        "review",
        "Write a page for physicians' review.",
        "panendofm.vqa.commands:run_review",
        ("BENCH",),
        None,
        _review_options,
    ),
    Command(
        "rephrase",
        "Word the questions anew by a model.",
        "panendofm.vqa.commands:run_rephrase",
        ("BENCH",),
        RephraseConfig,
    ),
    Command("ask", "Ask a model the questions of a bench.", "panendofm.vqa.commands:run_ask", ("BENCH",), RunConfig),
    Command(
        "encoder",
        "Answer a bench with a frozen encoder.",
        "panendofm.vqa.commands:run_contestant",
        ("BENCH",),
        ContestantConfig,
    ),
    Command(
        "synthesize",
        "Make up contestants and readers.",
        "panendofm.vqa.commands:run_synthesize",
        ("BENCH",),
        None,
        _synthesize_options,
    ),
    Command(
        "score",
        "Score answers: tables and a page.",
        "panendofm.vqa.commands:run_score",
        ("BENCH", "ANSWERS…"),
        None,
        _score_options,
    ),
    Command(
        "exam",
        "Ask a person, on a page of this machine.",
        "panendofm.vqa.commands:run_exam",
        ("BENCH",),
        None,
        _exam_options,
    ),
    Command(
        "rate",
        "Rate texts blindly, on a page.",
        "panendofm.vqa.commands:run_rate",
        ("BENCH", "ANSWERS…"),
        None,
        _rate_options,
    ),
    Command(
        "judge",
        "Let a model rate texts.",
        "panendofm.vqa.commands:run_judge",
        ("BENCH", "ANSWERS…"),
        JudgeConfig,
        _judge_options,
    ),
    Command(
        "contamination",
        "Look for a bench's pictures in shards and folders.",
        "panendofm.vqa.commands:run_contamination",
        ("BENCH",),
        None,
        _contamination_options,
    ),
)
STAGE = Stage("panendofm vqa", COMMANDS, extra="vqa")

if __name__ == "__main__":
    run_stage(STAGE)
