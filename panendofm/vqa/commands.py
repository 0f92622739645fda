"""What the verbs of `panendofm vqa` do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from panendofm.runtime.console import say
from panendofm.vqa.bench.bench_folder import Bench, read_bench
from panendofm.vqa.bench.config import (
    BuildConfig,
    ExportConfig,
    ImportConfig,
    InstructConfig,
    RephraseConfig,
    ReviewConfig,
)
from panendofm.vqa.bench.exports import export_bench
from panendofm.vqa.bench.imports import import_tsv
from panendofm.vqa.bench.rephrase import rephrase_bench
from panendofm.vqa.bench.review import write_review_page
from panendofm.vqa.benchmark import Benchmark, find_benchmark
from panendofm.vqa.client.answers import AnswerSet, read_answer_set
from panendofm.vqa.client.config import ConvertConfig, ExtractConfig, RunConfig
from panendofm.vqa.client.extract import extract_answers
from panendofm.vqa.client.interchange import convert_answers
from panendofm.vqa.client.run import ask_bench
from panendofm.vqa.people.config import ExamConfig, JudgeConfig, RankReportsConfig, RateConfig, RateReportsConfig
from panendofm.vqa.people.exam import serve_exam
from panendofm.vqa.people.judge import judge_texts
from panendofm.vqa.people.rate import serve_rating
from panendofm.vqa.people.readers import read_people
from panendofm.vqa.people.report_ranking import rank_reports
from panendofm.vqa.people.reports import serve_report_rating
from panendofm.vqa.score.accuracy.leaderboard import check_bench
from panendofm.vqa.score.config import CheckConfig, ContaminationConfig, EncoderConfig, ScoreConfig, SynthesizeConfig
from panendofm.vqa.score.contamination import find_contamination
from panendofm.vqa.synthesize import synthesize


def benchmark_of(bench: Bench) -> Benchmark:
    return find_benchmark(bench.manifest.benchmark)


def run_build(arguments: argparse.Namespace, config: BuildConfig) -> None:
    from panendofm.vqa.bench.build import build_bench  # torch is slow to import, and most verbs do without

    build_bench(config)


def run_instruct(arguments: argparse.Namespace, config: InstructConfig) -> None:
    from panendofm.vqa.bench.instruct import write_instructions

    write_instructions(config)


def run_import(arguments: argparse.Namespace, config: ImportConfig) -> None:
    import_tsv(Path(arguments.tsv), config)


def run_export(arguments: argparse.Namespace, config: ExportConfig) -> None:
    export_bench(read_bench(arguments.bench, verify=True), config)
    say(f"{config.form} → {config.out}")


def run_check(arguments: argparse.Namespace, config: CheckConfig) -> int:
    return check_bench(read_bench(arguments.bench, verify=True), config)


def run_review(arguments: argparse.Namespace, config: ReviewConfig) -> None:
    write_review_page(read_bench(arguments.bench), Path(config.out))
    say(f"{config.out}: decide, save review.csv, and build again with review=review.csv")


def run_rephrase(arguments: argparse.Namespace, config: RephraseConfig) -> None:
    rephrase_bench(read_bench(arguments.bench, verify=True), config)


def run_ask(arguments: argparse.Namespace, config: RunConfig) -> int:
    return ask_bench(read_bench(arguments.bench), config)


def run_extract(arguments: argparse.Namespace, config: ExtractConfig) -> None:
    extract_answers(read_bench(arguments.bench), Path(arguments.answers), config)


def run_convert(arguments: argparse.Namespace, config: ConvertConfig) -> None:
    convert_answers(read_bench(arguments.bench), Path(arguments.answers), config)


def run_encoder(arguments: argparse.Namespace, config: EncoderConfig) -> None:
    from panendofm.vqa.encoder import answer_with_encoder

    bench = read_bench(arguments.bench)
    answer_with_encoder(benchmark_of(bench), bench, config)


def run_synthesize(arguments: argparse.Namespace, config: SynthesizeConfig) -> None:
    synthesize(read_bench(arguments.bench), Path(config.out))


def run_score(arguments: argparse.Namespace, config: ScoreConfig) -> None:
    score_bench(read_bench(arguments.bench), [Path(path) for path in arguments.answers], config)


def score_bench(bench: Bench, answers: Sequence[Path], config: ScoreConfig) -> object:
    """The results are those of the benchmark's leaderboard."""
    benchmark = benchmark_of(bench)
    return benchmark.leaderboard.score(benchmark, bench, answers, config)


def run_exam(arguments: argparse.Namespace, config: ExamConfig) -> None:
    serve_exam(read_bench(arguments.bench), config)


def run_rate(arguments: argparse.Namespace, config: RateConfig) -> None:
    bench = read_bench(arguments.bench)
    rubric = benchmark_of(bench).rubric_called(config.rubric)
    serve_rating(bench, rubric, _all_sets(bench, arguments.answers, config.people), config)


def run_rate_reports(arguments: argparse.Namespace, config: RateReportsConfig) -> None:
    serve_report_rating([Path(folder) for folder in arguments.reports], config)


def run_rank_reports(arguments: argparse.Namespace, config: RankReportsConfig) -> None:
    rank_reports([Path(folder) for folder in arguments.reports], config)


def run_judge(arguments: argparse.Namespace, config: JudgeConfig) -> None:
    bench = read_bench(arguments.bench)
    rubric = benchmark_of(bench).rubric_called(config.rubric)
    judge_texts(bench, rubric, _all_sets(bench, arguments.answers, config.people), config)


def _all_sets(bench: Bench, answers: Sequence[str], people: str) -> list[AnswerSet]:
    sets = [read_answer_set(Path(path), bench, allow_partial=True) for path in answers]
    if people:
        sets += [one for _, one in read_people(Path(people), bench, allow_partial=True)]
    return sets


def run_contamination(arguments: argparse.Namespace, config: ContaminationConfig) -> None:
    find_contamination(read_bench(arguments.bench), config)
