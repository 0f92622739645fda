"""What the verbs of `panendofm vqa` do."""

from __future__ import annotations

import argparse
from pathlib import Path

from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.config import BuildConfig, ImportConfig
from panendofm.vqa.bench.exports import export_bench
from panendofm.vqa.bench.imports import import_tsv
from panendofm.vqa.bench.items import Bench, read_bench
from panendofm.vqa.bench.rephrase import rephrase_bench
from panendofm.vqa.bench.rephrase_config import RephraseConfig
from panendofm.vqa.client.answers import AnswerSet, read_answer_set
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.run import ask_bench
from panendofm.vqa.judge.config import JudgeConfig
from panendofm.vqa.score.config import ContestantConfig


def run_build(arguments: argparse.Namespace, config: BuildConfig) -> None:
    from panendofm.vqa.bench.build import build_bench  # torch is slow to import, and most verbs do without

    build_bench(config)


def run_ask(arguments: argparse.Namespace, config: RunConfig) -> int:
    return ask_bench(read_bench(arguments.bench), config)


def run_score(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.score.settings import ScoreSettings

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
        from panendofm.vqa.score.gi_bench.leaderboard import score_lesions

        score_lesions(bench, answers, settings)
    else:
        from panendofm.vqa.score.results import score_bench

        score_bench(bench, answers, settings)


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None


def run_exam(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.people.exam import serve_exam

    serve_exam(read_bench(arguments.bench), Path(arguments.people), arguments.reader, arguments.group, arguments.port)


def _all_sets(bench: Bench, arguments: argparse.Namespace) -> list[AnswerSet]:
    sets = [read_answer_set(Path(path), bench, allow_partial=True) for path in arguments.answers]
    if arguments.people:
        from panendofm.vqa.people.readers import read_people

        sets += [one for _, one in read_people(Path(arguments.people), bench, allow_partial=True)]
    return sets


def run_rate(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.people.rate import serve_rating

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


def run_judge(arguments: argparse.Namespace, config: JudgeConfig) -> None:
    from panendofm.vqa.judge.judge import judge_texts

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


def run_contamination(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.score.contamination import find_contamination

    if not arguments.shards and not arguments.pictures:
        raise UserError("name what to look in: --shards DIR or --pictures DIR.")
    shards, folders = ([Path(path) for path in paths] for paths in (arguments.shards, arguments.pictures))
    find_contamination(read_bench(arguments.bench), shards, folders, Path(arguments.out))


def run_contestant(arguments: argparse.Namespace, config: ContestantConfig) -> None:
    from panendofm.vqa.score.encoder import answer_with_encoder

    answer_with_encoder(read_bench(arguments.bench), config)


def run_import(arguments: argparse.Namespace, config: ImportConfig) -> None:
    import_tsv(Path(arguments.tsv), config)


def run_export(arguments: argparse.Namespace, config: None) -> None:
    export_bench(read_bench(arguments.bench, verify=True), arguments.form, Path(arguments.out))
    say(f"{arguments.form} → {arguments.out}")


def run_check(arguments: argparse.Namespace, config: None) -> int:
    from panendofm.vqa.score.results import check_bench

    return check_bench(read_bench(arguments.bench, verify=True), arguments.draws)


def run_review(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.bench.review import write_review_page

    write_review_page(read_bench(arguments.bench), Path(arguments.out))
    say(f"{arguments.out}: decide, save review.csv, and build again with review=review.csv")


def run_rephrase(arguments: argparse.Namespace, config: RephraseConfig) -> None:
    rephrase_bench(read_bench(arguments.bench, verify=True), config)


def run_synthesize(arguments: argparse.Namespace, config: None) -> None:
    from panendofm.vqa.synthesize import synthesize

    synthesize(read_bench(arguments.bench), Path(arguments.out))
