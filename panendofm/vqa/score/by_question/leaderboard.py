"""Models, readers and groups of readers in one table, with a column for each question type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import make_directory, write_text
from panendofm.scoring.answers.choices import common_answers
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.people.ratings import Rating, read_ratings
from panendofm.vqa.reply_kinds import CHOICE
from panendofm.vqa.score.by_question.dimensions import add_dimensions
from panendofm.vqa.score.by_question.estimates import columns_of
from panendofm.vqa.score.by_question.grounding import grounding_of
from panendofm.vqa.score.by_question.over_interpretation import said_too_much
from panendofm.vqa.score.by_question.page import page_of
from panendofm.vqa.score.by_question.readers import compare_with_groups, group_row
from panendofm.vqa.score.by_question.results import Difference, Part, QuestionResults, Row, write_results
from panendofm.vqa.score.by_question.rows import chain_of, prompt_pairs, row_of
from panendofm.vqa.score.by_question.tables import Tables
from panendofm.vqa.score.by_question.texts import TextCheck, add_ratings, agreement_of, consistency
from panendofm.vqa.score.config import ScoreConfig
from panendofm.vqa.score.contestants import read_contestants
from panendofm.vqa.score.sheets import Contestant, write_parsed

OVER_INTERPRETATION = "over_interpretation"


@dataclass(frozen=True)
class QuestionLeaderboard:
    """What a benchmark declares of its table beside the metrics of its question types."""

    rank_by: str  # name of a metric
    chain: tuple[str, ...] = ()  # codes; errors of an earlier question make those of a later one likely
    text_check: TextCheck | None = None

    def score(
        self, benchmark: Benchmark, bench: Bench, answers: Sequence[Path], config: ScoreConfig
    ) -> QuestionResults:
        config.refuse(benchmark.title, "contamination")
        contestants = read_contestants(bench, answers, config)
        models = [contestant for contestant in contestants if not contestant.group]
        sheets = [sheet for contestant in contestants for sheet in contestant.sheets.values()]
        ratings = read_ratings(Path(config.ratings), benchmark.rubric) if config.ratings else []
        rated_by = add_ratings(sheets, ratings, benchmark.rubric)
        too_much = []
        if config.over_interpretation:
            rubric = benchmark.rubric_called(OVER_INTERPRETATION)
            too_much = read_ratings(Path(config.over_interpretation), rubric)
        scoring = _Scoring(self, benchmark, bench, config, too_much)
        human = None
        if len(models) < len(contestants):
            human = scoring.part([item for item in bench.items if item.human], contestants)
        results = QuestionResults(
            bench=bench.manifest.name,
            bench_sha256=bench.checksum,
            benchmark=benchmark.name,
            diagnosis_options=bench.manifest.lesions.diagnosis_options if bench.manifest.lesions else "",
            reviewed=bench.manifest.reviewed,
            bootstrap=config.bootstrap,
            rated_by=rated_by,
            judges_in_the_table=sorted({rating.rater for rating in ratings if rating.by_contestant}),
            agreement=agreement_of(ratings),
            published=benchmark.published,
            full=scoring.part(bench.items, models),
            human=human,
            complete_cases=scoring.complete_cases(models) if config.complete_cases else None,
        )
        out = make_directory(config.out)
        tables = Tables(benchmark, self.rank_by)
        write_results(out, results)
        write_text(out / "summary.csv", _summary(results, benchmark))
        write_parsed(out, bench, contestants)
        write_text(out / "index.html", page_of(benchmark, bench, results, tables, [c.plain for c in contestants]))
        _say(results, tables, out)
        return results


@dataclass(frozen=True)
class _Scoring:
    leaderboard: QuestionLeaderboard
    benchmark: Benchmark
    bench: Bench
    config: ScoreConfig
    too_much: Sequence[Rating]

    def part(self, items: Sequence[Item], contestants: Sequence[Contestant]) -> Part:
        """The table of one set of questions: models, and readers with their groups."""
        columns = columns_of(self.benchmark, items, self.config.bootstrap)
        rows = []
        for contestant in contestants:
            row = row_of(self.bench, contestant, columns)
            if self.leaderboard.chain:
                row.chain = chain_of(contestant.plain, self.leaderboard.chain, columns)
                row.grounding = grounding_of(contestant.plain, self.leaderboard.chain, columns)
            if self.too_much:
                rubric = self.benchmark.rubric_called(OVER_INTERPRETATION)
                row.said_too_much = said_too_much(contestant.plain, self.too_much, rubric, columns)
            check = self.leaderboard.text_check
            if check is not None and self.bench.manifest.lesions is not None:
                row.consistency = consistency(check, self.bench.manifest.lesions, contestant.plain, columns)
            rows.append(row)
        by_group: dict[str, list[tuple[Row, Contestant]]] = defaultdict(list)
        models = []
        for row, contestant in zip(rows, contestants, strict=True):
            if contestant.group:
                by_group[contestant.group].append((row, contestant))
            else:
                models.append((row, contestant.plain))
        readers = {group: [c.plain for _, c in members] for group, members in sorted(by_group.items())}
        groups = [
            group_row(group, sheets, [row for row, _ in by_group[group]], columns) for group, sheets in readers.items()
        ]
        compare_with_groups(models, readers, columns)
        contestants_of_rows = [(row, contestant.plain) for row, contestant in zip(rows, contestants, strict=True)]
        with_readers = [(row, readers[row.name]) for row in groups]
        add_dimensions(contestants_of_rows, with_readers, models, self.benchmark.rubric, columns)
        pairs = prompt_pairs([own for own in contestants if not own.group], columns)
        return Part(len({item.sha256 for item in items}), len(items), rows, groups, pairs)

    def complete_cases(self, models: Sequence[Contestant]) -> Part:
        """Only images whose choices every model answered. Adding a model changes everybody's metrics."""
        images = sorted({item.sha256 for item in self.bench.items})
        choices: dict[str, list[Item]] = defaultdict(list)
        for item in self.bench.items:
            if item.kind == CHOICE.name:
                choices[item.sha256].append(item)
        answered: dict[str, Sequence[float | None]] = {}
        for model in models:
            complete = [all(model.plain.reading(item).status == "ok" for item in choices[sha256]) for sha256 in images]
            answered[model.name] = [1.0 if whole else None for whole in complete]
        kept = {images[number] for number in common_answers(answered)}
        items = [item for item in self.bench.items if item.sha256 in kept]
        return self.part(items, models) if items else Part()


def _summary(results: QuestionResults, benchmark: Benchmark) -> str:
    """One line for each metric of a contestant, and one for each group of readers that it is compared with."""
    head = ["part", "contestant", "kind", "metric", "n", "value", "low", "high"]
    head += ["group", "difference", "difference_low", "difference_high", "p", "p_holm"]
    names = [metric.name for question in benchmark.questions for metric in question.metrics]
    lines: list[list[object]] = []
    for title, part in (("full", results.full), ("human", results.human)):
        for row in [*part.rows, *part.groups] if part is not None else []:
            for name in names:
                if name not in row.metrics:
                    continue
                own = row.metrics[name]
                start = [title, row.name, row.kind, name, own.n, own.value, *(own.interval or ("", ""))]
                gaps = {group: found[name] for group, found in row.against.items() if name in found}
                lines += _lines(start, gaps)
            for code, dimensions in row.dimensions.items():
                for name, value in dimensions.items():
                    limits = value.interval or ("", "")
                    start = [title, row.name, row.kind, f"{code}_{name}".lower(), value.n, value.mean, *limits]
                    known = {group: by.get(code, {}) for group, by in row.dimensions_against.items()}
                    lines += _lines(start, {group: found[name] for group, found in known.items() if name in found})
    return csv_text(head, lines)


def _lines(start: list[object], gaps: dict[str, Difference]) -> list[list[object]]:
    """One for each group that the row is compared with, or one alone."""
    if not gaps:
        return [[*start, *[""] * 6]]
    lines = []
    for group, gap in gaps.items():
        tested = ["" if p is None else p for p in (gap.p, gap.p_holm)]
        lines.append([*start, group, gap.difference, *(gap.interval or ("", "")), *tested])
    return lines


def _say(results: QuestionResults, tables: Tables, out: Path) -> None:
    for part, title in ((results.full, "all images"), (results.human, "images that people answered")):
        if part is not None:
            offers = f"; diagnosis among {results.diagnosis_options}" if results.diagnosis_options else ""
            content = tables.short(part)
            table(f"{results.bench}, {title}: {part.images} images{offers}", content.columns, content.rows)
    for row in results.full.rows:
        for boxes in row.boxes.values():
            if boxes.looks_like:
                hint = f"replies look like {boxes.looks_like}"
                warn(f"{row.name}: {hint}; if so, set api.box_convention and score again.")
    say(f"results: {out / 'index.html'}, results.json, leaderboard.json, summary.csv, parsed.jsonl")
