"""GI-Bench's leaderboard: models, readers and groups in one table, and a page that needs no other file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_json, write_text
from panendofm.scoring.answers.choices import common_answers
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml
from panendofm.vqa.client.answers import AnswerSet, read_answer_set
from panendofm.vqa.people.ratings import read_ratings
from panendofm.vqa.people.readers import read_people
from panendofm.vqa.score.gi_bench.estimates import COLUMNS, FIGURES, columns_of
from panendofm.vqa.score.gi_bench.leaderboard_page import page_of
from panendofm.vqa.score.gi_bench.metrics import contestant_figures
from panendofm.vqa.score.gi_bench.people import against_groups, group_figures
from panendofm.vqa.score.gi_bench.sheets import Sheet, parsed_rows, sheet_of
from panendofm.vqa.score.gi_bench.tables import short_table
from panendofm.vqa.score.gi_bench.texts import add_ratings, agreement_of, consistency
from panendofm.vqa.score.gi_bench.variants import Contestant, read_contestant, variant_figures
from panendofm.vqa.score.metrics import accounting
from panendofm.vqa.score.settings import ScoreSettings

FORMAT = 1


def score_lesions(bench: Bench, answers: Sequence[Path], settings: ScoreSettings) -> dict[str, Any]:
    """Score models and people on a bench of the profile gi_bench."""
    sets = [read_answer_set(path, bench, settings.allow_partial) for path in answers]
    people = read_people(settings.people, bench, settings.allow_partial) if settings.people else []
    names = [one.name for one in sets] + [one.name for _, one in people]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"two contestants are called {twice[0]}; give one another api.name.")
    models = [Entry(one, read_contestant(bench, one, settings.mode)) for one in sets]
    readers = [Entry(one, Contestant(sheet_of(bench, one, settings.mode)), group) for group, one in people]
    everybody = [sheet for entry in (*models, *readers) for sheet in entry.contestant.sheets]
    ratings = read_ratings(settings.ratings) if settings.ratings else []
    rated_by = add_ratings(everybody, ratings)
    results: dict[str, Any] = {
        "format": FORMAT,
        "bench": bench.manifest["name"],
        "bench_sha256": bench.checksum,
        "profile": "gi_bench",
        "q3_options": bench.manifest["q3_options"],
        "reviewed": bench.manifest.get("reviewed", 0),
        "draws": settings.draws,
        "rated_by": rated_by,
        "judges_in_the_table": sorted({rating.rater for rating in ratings if rating.by_contestant}),
        "agreement": agreement_of(ratings),
        "published": read_package_yaml("score/published", "gi_bench.yaml"),
        "full": _part(bench, bench.items, models, settings),
    }
    if readers:
        human = [item for item in bench.items if item.human]
        results["human"] = _part(bench, human, [*models, *readers], settings)
    if settings.complete_cases:
        results["complete_cases"] = _complete_cases(bench, models, settings)
    _write(bench, results, [*models, *readers], everybody, make_directory(settings.out))
    return results


@dataclass(frozen=True)
class Entry:
    """Somebody who takes part; `group` is that of a reader."""

    answers: AnswerSet
    contestant: Contestant
    group: str = ""


def _write(
    bench: Bench, results: dict[str, Any], entries: Sequence[Entry], everybody: Sequence[Sheet], out: Path
) -> None:
    write_json(out / "results.json", _plain(results))
    board = {key: results[key] for key in ("bench", "full", "human", "published") if key in results}
    write_json(out / "leaderboard.json", _plain(board))
    write_text(out / "summary.csv", _summary(results))
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in parsed_rows(bench, everybody))
    write_text(out / "parsed.jsonl", "".join(lines))
    write_text(out / "index.html", page_of(bench, results, [entry.contestant.plain for entry in entries]))
    _say(results, out)


def _part(bench: Bench, items: Sequence[Item], entries: Sequence[Entry], settings: ScoreSettings) -> dict[str, Any]:
    """The table of one set of questions: models, and readers with their groups."""
    columns = columns_of(items, settings.draws)
    rows = []
    for entry in entries:
        sheet = entry.contestant.plain
        row = contestant_figures(bench, sheet, columns) | variant_figures(entry.contestant, columns)
        row["consistency"] = consistency(bench, sheet, columns)
        row["accounting"] = None if entry.group else accounting(entry.answers)
        row["accounting_questions"] = len(items)
        row["seconds"] = accounting(entry.answers)["median_latency_s"]
        rows.append(row)
    by_group: dict[str, list[int]] = defaultdict(list)
    for number, entry in enumerate(entries):
        if entry.group:
            by_group[entry.group].append(number)
    readers = {group: [entries[n].contestant.plain for n in members] for group, members in sorted(by_group.items())}
    groups = [
        group_figures(group, sheets, [rows[n] for n in by_group[group]], columns) for group, sheets in readers.items()
    ]
    models = [(row, entry.contestant.plain) for row, entry in zip(rows, entries, strict=True) if not entry.group]
    against_groups(models, readers, columns)
    return {"pictures": len({item.sha256 for item in items}), "questions": len(items), "rows": rows, "groups": groups}


def _complete_cases(bench: Bench, models: Sequence[Entry], settings: ScoreSettings) -> dict[str, Any]:
    """The paper's way: only pictures whose choices every model answered. Adding a model changes everybody's figures."""
    pictures = sorted({item.sha256 for item in bench.items})
    answered: dict[str, Sequence[float | None]] = {
        sheet.name: [
            1.0 if all(v.status == "ok" for v in (sheet.q1.get(p), sheet.q3.get(p)) if v is not None) else None
            for p in pictures
        ]
        for sheet in (entry.contestant.plain for entry in models)
    }
    kept = {pictures[n] for n in common_answers(answered)}
    items = [item for item in bench.items if item.sha256 in kept]
    return _part(bench, items, models, settings) if items else {"pictures": 0, "questions": 0, "rows": [], "groups": []}


def _plain(value: Any) -> Any:
    """Plain values for JSON: no defaultdicts, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _summary(results: dict[str, Any]) -> str:
    """One line for each figure of a contestant, and one for each group of readers that it is compared with."""
    head = ["part", "contestant", "kind", "figure", "n", "value", "low", "high"]
    head += ["group", "difference", "difference_low", "difference_high", "p", "p_holm"]
    lines = []
    for part in ("full", "human"):
        for row in [*results.get(part, {}).get("rows", []), *results.get(part, {}).get("groups", [])]:
            for figure, column in FIGURES.items():
                if figure not in row:
                    continue
                value = row[figure] if figure not in COLUMNS else row[figure]["mean"]
                limits = row["intervals"].get(figure) or ("", "")
                start = [part, row["name"], row["kind"], figure, row[column]["n"], value, *limits]
                tests = [(group, own[figure]) for group, own in row.get("against", {}).items() if figure in own]
                for group, test in tests:
                    gap = [group, test["difference"], *(test["interval"] or ("", ""))]
                    lines.append([*start, *gap, test.get("p", ""), test.get("p_holm", "")])
                if not tests:
                    lines.append([*start, *[""] * 6])
    return csv_text(head, lines)


def _say(results: dict[str, Any], out: Path) -> None:
    for part, title in (("full", "all pictures"), ("human", "pictures that people answered")):
        if part in results:
            table(
                f"{results['bench']}, {title}: {results[part]['pictures']} pictures; Q3 offers {results['q3_options']}",
                *short_table(results[part]),
            )
    for row in results["full"]["rows"]:
        if row.get("q2_looks_like"):
            hint = f"replies look like {row['q2_looks_like']}"
            warn(f"{row['name']}: {hint}; if so, set api.box_convention and score again.")
    say(f"results: {out / 'index.html'}, results.json, leaderboard.json, summary.csv, parsed.jsonl")
