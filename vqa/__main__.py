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
from vqa.bench.items import Bench, read_bench
from vqa.bench.rephrase import RephraseConfig, rephrase_bench
from vqa.client.answers import AnswerSet, read_answer_set
from vqa.client.config import RunConfig
from vqa.client.run import ask_bench
from vqa.judge.judge import JudgeConfig
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
    parser.add_argument("--people", help="folder of readers' answers (gi_bench)")
    parser.add_argument("--ratings", help="folder of ratings of texts (gi_bench)")
    parser.add_argument("--complete-cases", action="store_true", help="the paper's way beside ours (gi_bench)")


def _score(arguments: argparse.Namespace, config: None) -> None:
    from vqa.score.settings import ScoreSettings

    settings = ScoreSettings(
        Path(arguments.out),
        arguments.allow_partial,
        arguments.draws,
        arguments.parse_mode,
        _path(arguments.contamination),
        people=_path(arguments.people),
        ratings=_path(arguments.ratings),
        complete_cases=arguments.complete_cases,
    )
    bench, answers = read_bench(arguments.bench), [Path(path) for path in arguments.answers]
    if bench.manifest.get("profile") == "gi_bench":
        from vqa.score.leaderboard import score_lesions

        score_lesions(bench, answers, settings)
    else:
        from vqa.score.results import score_bench

        score_bench(bench, answers, settings)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def _exam_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reader", required=True, help="a code such as junior-1, no name")
    parser.add_argument("--group", required=True, help="such as junior")
    parser.add_argument("--people", default="people", help="folder for the answers (people)")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")


def _exam(arguments: argparse.Namespace, config: None) -> None:
    from vqa.people.exam import serve_exam

    serve_exam(read_bench(arguments.bench), Path(arguments.people), arguments.reader, arguments.group, arguments.port)


def _text_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--people", help="folder of readers' answers, to rate their texts too")
    parser.add_argument("--human-subset", action="store_true", help="only pictures that people answer too")
    parser.add_argument("--blind", action="store_true", help="texts that were written without the picture too")


def _rate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rater", required=True, help="a code such as expert-1, no name")
    parser.add_argument("--ratings", default="ratings", help="folder for the ratings (ratings)")
    _text_options(parser)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")


def _all_sets(bench: Bench, arguments: argparse.Namespace) -> list[AnswerSet]:
    sets = [read_answer_set(Path(path), bench, allow_partial=True) for path in arguments.answers]
    if arguments.people:
        from vqa.people.readers import read_people

        sets += [one for _, one in read_people(Path(arguments.people), bench, allow_partial=True)]
    return sets


def _rate(arguments: argparse.Namespace, config: None) -> None:
    from vqa.people.rate import serve_rating

    bench = read_bench(arguments.bench)
    serve_rating(
        bench,
        _all_sets(bench, arguments),
        Path(arguments.ratings),
        arguments.rater,
        arguments.port,
        arguments.human_subset,
        arguments.blind,
    )


def _judge_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--allow-self", action="store_true", help="let a contestant be the judge; it is said then")
    parser.add_argument("--no-reference", action="store_true", help="rate texts without a reference, without accuracy")
    _text_options(parser)


def _judge(arguments: argparse.Namespace, config: JudgeConfig) -> None:
    from vqa.judge.judge import judge_texts

    bench = read_bench(arguments.bench)
    judge_texts(
        bench,
        _all_sets(bench, arguments),
        config,
        arguments.allow_self,
        arguments.no_reference,
        arguments.human_subset,
        arguments.blind,
    )


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


def _synthesize_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", required=True, help="folder for answers/ and people/")


def _synthesize(arguments: argparse.Namespace, config: None) -> None:
    from vqa.synthesize import synthesize

    synthesize(read_bench(arguments.bench), Path(arguments.out))


COMMANDS = (
    Command("build", "Make a bench of questions from an atlas.", _build, (), BuildConfig),
    Command("import", "Make a bench from a TSV in EndoBench's style.", _import, ("TSV",), ImportConfig),
    Command("export", "Write a bench for other tools.", _export, ("BENCH",), None, _export_options),
    Command("check", "Look for shortcuts and damage in a bench.", _check, ("BENCH",), None, _check_options),
    Command("review", "Write a page for physicians' review.", _review, ("BENCH",), None, _review_options),
    Command("rephrase", "Word the questions anew by a model.", _rephrase, ("BENCH",), RephraseConfig),
    Command("ask", "Ask a model the questions of a bench.", _ask, ("BENCH",), RunConfig),
    Command("encoder", "Answer a bench with a frozen encoder.", _contestant, ("BENCH",), ContestantConfig),
    Command("synthesize", "Make up contestants and readers.", _synthesize, ("BENCH",), None, _synthesize_options),
    Command("score", "Score answers: tables and a page.", _score, ("BENCH", "ANSWERS…"), None, _score_options),
    Command("exam", "Ask a person, on a page of this machine.", _exam, ("BENCH",), None, _exam_options),
    Command("rate", "Rate texts blindly, on a page.", _rate, ("BENCH", "ANSWERS…"), None, _rate_options),
    Command("judge", "Let a model rate texts.", _judge, ("BENCH", "ANSWERS…"), JudgeConfig, _judge_options),
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
