"""Score contestants on multiple-choice questions: results.json, tables and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from panendofm.reports import latex, markdown
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.files import make_directory, write_text
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.benchmark import Benchmark
from panendofm.vqa.reply_kinds import CHOICE
from panendofm.vqa.score.accuracy.metrics import contestant_result, pair_tests, right_of
from panendofm.vqa.score.accuracy.page import page_of
from panendofm.vqa.score.accuracy.people import human_study
from panendofm.vqa.score.accuracy.results import (
    AccuracyResults,
    ContaminationResult,
    HumanStudy,
    write_results,
)
from panendofm.vqa.score.accuracy.shortcuts import TOLERATED, find_shortcuts
from panendofm.vqa.score.accuracy.tables import (
    against_table,
    axis_table,
    human_table,
    leaderboard_table,
    shortcut_table,
    summary_csv,
)
from panendofm.vqa.score.config import CheckConfig, ScoreConfig
from panendofm.vqa.score.contamination import read_contamination
from panendofm.vqa.score.contestants import read_contestants
from panendofm.vqa.score.sheets import Contestant, QuestionSet, write_parsed


@dataclass(frozen=True)
class AccuracyLeaderboard:
    """Accuracy of every contestant on the multiple-choice questions that all of them were asked."""

    def score(
        self, benchmark: Benchmark, bench: Bench, answers: Sequence[Path], config: ScoreConfig
    ) -> AccuracyResults:
        config.refuse(benchmark.title, "ratings", "over_interpretation", "complete_cases")
        everybody = read_contestants(bench, answers, config)
        contestants = [contestant for contestant in everybody if not contestant.group]
        choices = _choices(bench)
        items = common_items(choices, contestants) if config.allow_partial else choices
        questions = QuestionSet(items, config.bootstrap)
        seen = None
        if config.contamination:
            seen = _contamination(bench, questions, contestants, Path(config.contamination))
        human = None
        if config.people:
            asked = [item for item in choices if item.human]
            asked = common_items(asked, everybody) if config.allow_partial else asked
            human = human_study(choices, everybody, QuestionSet(asked, config.bootstrap))
        results = AccuracyResults(
            bench=bench.manifest.name,
            bench_sha256=bench.checksum,
            benchmark=benchmark.name,
            reviewed=bench.manifest.reviewed,
            questions=len(items),
            questions_in_bench=len(choices),
            groups=len(np.unique(questions.groups)),
            bootstrap=config.bootstrap,
            parser=config.parser,
            contestants={own.name: contestant_result(questions, own) for own in contestants},
            pairs=pair_tests(questions, contestants),
            shortcuts=find_shortcuts(questions),
            published=benchmark.published,
            contamination=seen,
            human=human,
        )
        out = make_directory(config.out)
        _write(bench, results, everybody, out)
        write_text(out / "index.html", page_of(bench, results, items, contestants))
        _say(results, out)
        return results


def _choices(bench: Bench) -> list[Item]:
    return [item for item in bench.items if item.kind == CHOICE.name]


def check_bench(bench: Bench, config: CheckConfig) -> int:
    """Say which shortcuts a bench leaves open; 1 when one is flagged."""
    items = _choices(bench)
    rows = find_shortcuts(QuestionSet(items, config.bootstrap))
    content = shortcut_table(rows)
    title = f"{bench.manifest.name}: {len(items)} questions, files as their checksums say"
    table(title, content.columns, content.rows)
    flagged = sum(row.flagged for row in rows)
    say(f"{flagged} shortcuts are more than {TOLERATED} above chance; reviewed: {bench.manifest.reviewed}")
    return int(flagged > 0)


def common_items(items: Sequence[Item], contestants: Sequence[Contestant]) -> list[Item]:
    """Questions that every contestant was asked: only on these they can be compared."""
    return [item for item in items if all(contestant.plain.asked(item) for contestant in contestants)]


def _contamination(
    bench: Bench, questions: QuestionSet, contestants: Sequence[Contestant], path: Path
) -> ContaminationResult:
    report = read_contamination(path, bench)
    seen = np.isin([item.sha256 for item in questions.items], report.seen)
    parts = {name: own for name, own in (("seen", seen), ("not_seen", ~seen)) if own.any()}
    accuracy = {}
    for contestant in contestants:
        right = right_of(questions, contestant.plain)
        accuracy[contestant.name] = questions.accuracies(right, parts)
    ids = [item.id for item in questions.kept(seen)]
    return ContaminationResult(report.places, len(report.seen), len(ids), ids, accuracy)


def _write(bench: Bench, results: AccuracyResults, contestants: Sequence[Contestant], out: Path) -> None:
    write_results(out, results)
    main = leaderboard_table(results)
    caption = _caption(results)
    parts = [caption, markdown(main), markdown(axis_table(results, "task"))]
    if results.human is not None:
        parts += [_human_caption(results.human), markdown(human_table(results.human, results.bootstrap.confidence))]
        parts += [markdown(against_table(results.human))] if results.human.against else []
    write_text(out / "table.md", "\n\n".join(parts) + "\n")
    write_text(out / "table.tex", latex(main, caption))
    write_text(out / "summary.csv", summary_csv(results))
    write_parsed(out, bench, contestants)


def _caption(results: AccuracyResults) -> str:
    return (
        f"{results.bench}: {results.questions} of {results.questions_in_bench} questions, "
        f"reviewed: {results.reviewed}, chance {results.chance:.3f}"
    )


def _human_caption(study: HumanStudy) -> str:
    return f"Questions that people answered: {study.questions} of {study.questions_for_people}"


def _say(results: AccuracyResults, out: Path) -> None:
    main = leaderboard_table(results)
    table(_caption(results), main.columns, main.rows)
    if results.human is not None:
        people = human_table(results.human, results.bootstrap.confidence)
        table(_human_caption(results.human), people.columns, people.rows)
    for row in results.shortcuts:
        if row.flagged:
            own = row.accuracy
            warn(f"{row.task}: the {row.shortcut} gets {own.accuracy:.3f}, guessing {own.chance:.3f}.")
    say(f"results: {out / 'index.html'}, results.json, table.md, table.tex, summary.csv, parsed.jsonl")
