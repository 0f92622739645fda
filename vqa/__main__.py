"""python -m vqa: benches of questions about endoscopy pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from runtime.command_line import Command, run_stage
from runtime.console import say
from runtime.errors import UserError
from vqa.bench.config import BuildConfig
from vqa.bench.exports import FORMS, export_bench
from vqa.bench.imports import ImportConfig, import_tsv
from vqa.bench.items import read_bench
from vqa.bench.rephrase import RephraseConfig, rephrase_bench
from vqa.client.config import RunConfig
from vqa.client.run import ask_bench
from vqa.score.config import ContestantConfig


def _build(arguments: argparse.Namespace, config: BuildConfig) -> None:
    from vqa.bench.build import build_bench  # torch is slow to import, and most verbs do without

    build_bench(config)


def _ask(arguments: argparse.Namespace, config: RunConfig) -> int:
    return ask_bench(read_bench(arguments.bench), config)


def _score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="results", help="folder for tables and the page (results)")
    parser.add_argument("--allow-partial", action="store_true", help="score the questions that all contestants have")
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws of whole groups (1000)")
    parser.add_argument("--parse-mode", choices=["cascade", "first_letter"], default="cascade")
    parser.add_argument("--contamination", help="report of 'vqa contamination'")


def _score(arguments: argparse.Namespace, config: None) -> None:
    from vqa.score.results import ScoreSettings, score_bench

    contamination = Path(arguments.contamination) if arguments.contamination else None
    settings = ScoreSettings(
        Path(arguments.out), arguments.allow_partial, arguments.draws, arguments.parse_mode, contamination
    )
    score_bench(read_bench(arguments.bench), [Path(path) for path in arguments.answers], settings)


def _contamination_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shards", action="append", default=[], help="a shard set; may be given several times")
    parser.add_argument("--pictures", action="append", default=[], help="a folder of pictures; several times too")
    parser.add_argument("--out", default="contamination.json", help="report to write (contamination.json)")


def _contamination(arguments: argparse.Namespace, config: None) -> None:
    from vqa.score.contamination import find_contamination

    if not arguments.shards and not arguments.pictures:
        raise UserError("name what to look in: --shards DIR or --pictures DIR.")
    shards, folders = ([Path(path) for path in paths] for paths in (arguments.shards, arguments.pictures))
    find_contamination(read_bench(arguments.bench), shards, folders, Path(arguments.out))


def _contestant(arguments: argparse.Namespace, config: ContestantConfig) -> None:
    from vqa.score.encoder import answer_with_encoder

    answer_with_encoder(read_bench(arguments.bench), config)


def _import(arguments: argparse.Namespace, config: ImportConfig) -> None:
    import_tsv(Path(arguments.tsv), config)


def _export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--form", choices=list(FORMS), default="huggingface", help="what it is for (huggingface)")
    parser.add_argument("--out", required=True, help="folder to write; it must not exist")


def _export(arguments: argparse.Namespace, config: None) -> None:
    export_bench(read_bench(arguments.bench, verify=True), arguments.form, Path(arguments.out))
    say(f"{arguments.form} → {arguments.out}")


def _check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=1000, help="bootstrap draws of whole groups (1000)")


def _check(arguments: argparse.Namespace, config: None) -> int:
    from vqa.score.results import check_bench

    return check_bench(read_bench(arguments.bench, verify=True), arguments.draws)


def _review_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="review.html", help="page to write (review.html)")


def _review(arguments: argparse.Namespace, config: None) -> None:
    from vqa.bench.review import write_review_page

    write_review_page(read_bench(arguments.bench), Path(arguments.out))
    say(f"{arguments.out}: decide, save review.csv, and build again with review=review.csv")


def _rephrase(arguments: argparse.Namespace, config: RephraseConfig) -> None:
    rephrase_bench(read_bench(arguments.bench, verify=True), config)


COMMANDS = (
    Command("build", "Make a bench of questions from an atlas.", _build, (), BuildConfig),
    Command("import", "Make a bench from a TSV in EndoBench's style.", _import, ("TSV",), ImportConfig),
    Command("export", "Write a bench for other tools.", _export, ("BENCH",), None, _export_options),
    Command("check", "Look for shortcuts and damage in a bench.", _check, ("BENCH",), None, _check_options),
    Command("review", "Write a page for physicians' review.", _review, ("BENCH",), None, _review_options),
    Command("rephrase", "Word the questions anew by a model.", _rephrase, ("BENCH",), RephraseConfig),
    Command("ask", "Ask a model the questions of a bench.", _ask, ("BENCH",), RunConfig),
    Command("encoder", "Answer a bench with a frozen encoder.", _contestant, ("BENCH",), ContestantConfig),
    Command("score", "Score answers: tables and a page.", _score, ("BENCH", "ANSWERS…"), None, _score_options),
    Command(
        "contamination",
        "Look for a bench's pictures in shards and folders.",
        _contamination,
        ("BENCH",),
        None,
        _contamination_options,
    ),
)

if __name__ == "__main__":
    run_stage("vqa", COMMANDS)
