"""GI-Bench's leaderboard: models, readers and groups in one table, and a page that needs no other file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from runtime.console import say, table, warn
from runtime.csv_files import csv_text
from runtime.errors import UserError
from runtime.files import make_directory, write_json, write_text
from scoring.choices import common_answers
from vqa.bench.items import Bench, Item
from vqa.client.answers import AnswerSet, read_answer_set
from vqa.people.ratings import read_ratings
from vqa.people.readers import read_people
from vqa.score.figures import accounting
from vqa.score.leaderboard_page import page_of
from vqa.score.lesion_tables import table_of
from vqa.score.lesions import COLUMNS, Sheet, columns_of, contestant_figures, sheet_of
from vqa.score.people import against_groups, group_figures
from vqa.score.settings import ScoreSettings
from vqa.score.texts import add_ratings, agreement_of, consistency

FORMAT = 1


def score_lesions(bench: Bench, answers: Sequence[Path], settings: ScoreSettings) -> dict[str, Any]:
    """Score models and people on a bench of the profile gi_bench."""
    sets = [read_answer_set(path, bench, settings.allow_partial) for path in answers]
    people = read_people(settings.people, bench, settings.allow_partial) if settings.people else []
    names = [one.name for one in sets] + [one.name for _, one in people]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UserError(f"two contestants are called {twice[0]}; give one another api.name.")
    sheets = [sheet_of(bench, one, settings.mode) for one in sets]
    readers = [(group, sheet_of(bench, one, settings.mode)) for group, one in people]
    ratings = read_ratings(settings.ratings) if settings.ratings else []
    rated_by = add_ratings([*sheets, *(sheet for _, sheet in readers)], ratings)
    results: dict[str, Any] = {
        "format": FORMAT,
        "bench": bench.manifest["name"],
        "bench_sha256": bench.checksum,
        "profile": "gi_bench",
        "q3_options": bench.manifest["q3_options"],
        "reviewed": bench.manifest.get("reviewed", 0),
        "draws": settings.draws,
        "rated_by": rated_by,
        "agreement": agreement_of(ratings),
        "full": _part(bench, bench.items, sheets, [], sets, settings),
    }
    human = [item for item in bench.items if item.human]
    if readers:
        results["human"] = _part(bench, human, sheets, readers, sets, settings)
    if settings.complete_cases:
        results["complete_cases"] = _complete_cases(bench, sheets, sets, settings)
    out = make_directory(settings.out)
    write_json(out / "results.json", _plain(results))
    board = {key: results[key] for key in ("bench", "full", "human") if key in results}
    write_json(out / "leaderboard.json", _plain(board))
    write_text(out / "summary.csv", _summary(results))
    everybody = [*sheets, *(sheet for _, sheet in readers)]
    write_text(out / "index.html", page_of(bench, results, everybody))
    _say(results, out)
    return results


def _part(
    bench: Bench,
    items: Sequence[Item],
    sheets: Sequence[Sheet],
    readers: Sequence[tuple[str, Sheet]],
    sets: Sequence[AnswerSet],
    settings: ScoreSettings,
) -> dict[str, Any]:
    """The table of one set of questions: models, and readers with their groups."""
    columns = columns_of(items)
    rows = []
    for sheet in [*sheets, *(sheet for _, sheet in readers)]:
        row = contestant_figures(bench, sheet, columns, settings.draws)
        row["consistency"] = consistency(bench, sheet, columns)
        own = next((one for one in sets if one.name == sheet.name), None)
        row["accounting"] = accounting(own) if own is not None else None
        row["accounting_questions"] = len(items)
        rows.append(row)
    by_group: dict[str, list[Sheet]] = defaultdict(list)
    for group, sheet in readers:
        by_group[group].append(sheet)
    groups = [group_figures(group, members, columns, settings.draws) for group, members in sorted(by_group.items())]
    against_groups([row for row in rows if row["kind"] != "people"], groups)
    return {"pictures": len({item.sha256 for item in items}), "questions": len(items), "rows": rows, "groups": groups}


def _complete_cases(
    bench: Bench, sheets: Sequence[Sheet], sets: Sequence[AnswerSet], settings: ScoreSettings
) -> dict[str, Any]:
    """The paper's way: only pictures whose choices every model answered. Adding a model changes everybody's figures."""
    pictures = sorted({item.sha256 for item in bench.items})
    answered: dict[str, Sequence[float | None]] = {
        sheet.name: [
            1.0 if all(v.status == "ok" for v in (sheet.q1.get(p), sheet.q3.get(p)) if v is not None) else None
            for p in pictures
        ]
        for sheet in sheets
    }
    kept = {pictures[n] for n in common_answers(answered)}
    items = [item for item in bench.items if item.sha256 in kept]
    return _part(bench, items, sheets, [], sets, settings) if items else {"pictures": 0, "questions": 0, "rows": []}


def _plain(value: Any) -> Any:
    """Plain values for JSON: no defaultdicts, no NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _summary(results: dict[str, Any]) -> str:
    head = ["part", "contestant", "kind", "column", "n", "mean", "low", "high", "group", "p", "p_holm"]
    lines = []
    for part in ("full", "human"):
        for row in [*results.get(part, {}).get("rows", []), *results.get(part, {}).get("groups", [])]:
            for column in COLUMNS:
                if column not in row:
                    continue
                low, high = row[column]["interval"] or ("", "")
                start = [part, row["name"], row["kind"], column, row[column]["n"], row[column]["mean"], low, high]
                against = row.get("against", {})
                tests = [(g, against[g][column]) for g in against if column in against[g]]
                for group, test in tests or [("", {"p": "", "p_holm": ""})]:
                    lines.append([*start, group, test["p"], test["p_holm"]])
    return csv_text(head, lines)


def _say(results: dict[str, Any], out: Path) -> None:
    for part, title in (("full", "all pictures"), ("human", "pictures that people answered")):
        if part in results:
            head, rows = table_of(results[part])
            short = [0, 2, 5, 8, 9, 10, 11, 12]
            table(
                f"{results['bench']}, {title}: {results[part]['pictures']} pictures; Q3 offers {results['q3_options']}",
                [head[n] for n in short],
                [[row[n] for n in short] for row in rows],
            )
    for row in results["full"]["rows"]:
        if row.get("q2_looks_like"):
            hint = f"replies look like {row['q2_looks_like']}"
            warn(f"{row['name']}: {hint}; if so, set api.box_convention and score again.")
    say(f"results: {out / 'index.html'}, results.json, leaderboard.json, summary.csv")
