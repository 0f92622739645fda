"""What the verbs of `panendofm vqa` do."""

from __future__ import annotations

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
from panendofm.vqa.people.rate import serve_rating, shown_texts
from panendofm.vqa.people.ratings import texts_to_rate
from panendofm.vqa.people.readers import check_code, read_people
from panendofm.vqa.people.report_ranking import rank_reports
from panendofm.vqa.people.reports import serve_report_rating
from panendofm.vqa.score.accuracy.leaderboard import check_bench
from panendofm.vqa.score.config import CheckConfig, ContaminationConfig, EncoderConfig, ScoreConfig, SynthesizeConfig
from panendofm.vqa.score.contamination import find_contamination
from panendofm.vqa.synthesize import synthesize


def benchmark_of(bench: Bench) -> Benchmark:
    return find_benchmark(bench.manifest.benchmark)


def run_build(config: BuildConfig) -> None:
    from panendofm.vqa.bench.build import build_bench  # torch is slow to import, and most verbs do without

    build_bench(config)


def run_instruct(config: InstructConfig) -> None:
    from panendofm.vqa.bench.instruct import write_instructions

    write_instructions(config)


def run_import(tsv: Path, config: ImportConfig) -> None:
    import_tsv(tsv, config)


def run_export(bench_folder: str, config: ExportConfig) -> None:
    export_bench(read_bench(bench_folder, verify=True), config)
    say(f"{config.form} → {config.out}")


def run_check(bench_folder: str, config: CheckConfig) -> int:
    return check_bench(read_bench(bench_folder, verify=True), config)


def run_review(bench_folder: str, config: ReviewConfig) -> None:
    write_review_page(read_bench(bench_folder), Path(config.out))
    say(f"{config.out}: decide, save review.csv, and build again with review=review.csv")


def run_rephrase(bench_folder: str, config: RephraseConfig) -> None:
    rephrase_bench(read_bench(bench_folder, verify=True), config)


def run_ask(bench_folder: str, config: RunConfig) -> int:
    return ask_bench(read_bench(bench_folder), config)


def run_extract(bench_folder: str, answers: Path, config: ExtractConfig) -> None:
    extract_answers(read_bench(bench_folder), answers, config)


def run_convert(bench_folder: str, answers: Path, config: ConvertConfig) -> None:
    convert_answers(read_bench(bench_folder), answers, config)


def run_encoder(bench_folder: str, config: EncoderConfig) -> None:
    from panendofm.vqa.encoder import answer_with_encoder

    bench = read_bench(bench_folder)
    answer_with_encoder(benchmark_of(bench), bench, config)


def run_synthesize(bench_folder: str, config: SynthesizeConfig) -> None:
    synthesize(read_bench(bench_folder), Path(config.out))


def run_score(bench_folder: str, answers: list[Path], config: ScoreConfig) -> None:
    score_bench(read_bench(bench_folder), answers, config)


def score_bench(bench: Bench, answers: Sequence[Path], config: ScoreConfig) -> object:
    """The results are those of the benchmark's leaderboard."""
    benchmark = benchmark_of(bench)
    return benchmark.leaderboard.score(benchmark, bench, answers, config)


def run_exam(bench_folder: str, config: ExamConfig) -> None:
    serve_exam(read_bench(bench_folder), config)


def run_rate(bench_folder: str, answers: list[Path], config: RateConfig) -> None:
    bench = read_bench(bench_folder)
    rubric = benchmark_of(bench).rubric_called(config.rubric)
    check_code(config.rater, "rater")
    texts = texts_to_rate(bench, _all_sets(bench, answers, config.people), config.human_subset, config.blind)
    serve_rating(shown_texts(bench, texts), rubric, config)


def run_rate_reports(reports: list[Path], config: RateReportsConfig) -> None:
    serve_report_rating(reports, config)


def run_rank_reports(reports: list[Path], config: RankReportsConfig) -> None:
    rank_reports(reports, config)


def run_judge(bench_folder: str, answers: list[Path], config: JudgeConfig) -> None:
    bench = read_bench(bench_folder)
    rubric = benchmark_of(bench).rubric_called(config.rubric)
    judge_texts(bench, rubric, _all_sets(bench, answers, config.people), config)


def _all_sets(bench: Bench, answers: Sequence[Path], people: str) -> list[AnswerSet]:
    sets = [read_answer_set(path, bench, allow_partial=True) for path in answers]
    if people:
        sets += [one for _, one in read_people(Path(people), bench, allow_partial=True)]
    return sets


def run_contamination(bench_folder: str, config: ContaminationConfig) -> None:
    find_contamination(read_bench(bench_folder), config)
