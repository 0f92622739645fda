"""The verb `rank`: scored submissions in order, with paired tests between them and the published rows beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.text_table import read_table
from panendofm.challenge.published.tables import published_table
from panendofm.challenge.rank.page import RANKED_COLUMNS, rank_page, ranked_rows
from panendofm.challenge.score.results import ANSWERS, load_results
from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_json, write_text
from panendofm.scoring.classification.confusion import weighted_confusions
from panendofm.scoring.classification.profiles import square_mcc
from panendofm.scoring.statistics import ranking
from panendofm.scoring.statistics.intervals import group_weights, paired_p_value, percentile_interval
from panendofm.scoring.statistics.paired_tests import holm
from panendofm.scoring.statistics.ranking import Entry

Task = Literal["classification", "efficiency", "hardware", "clinical"]
Reading = Literal["A", "B"]
MOST_RUNS = 5
FORMAT = 1


@dataclass(frozen=True)
class Scored:
    """A folder of results as a ranking sees it."""

    folder: Path
    results: dict[str, Any]
    entry: Entry


def rank(
    folders: Sequence[Path],
    task: Task = "classification",
    reading: Reading = "A",
    published: str | None = None,
    out: Path | None = None,
) -> dict[str, Any]:
    scored = [_scored(folder, task) for folder in folders]
    _check(scored, task)
    rows = _clinical(scored) if task == "clinical" else _ranked(scored, task, reading)
    tests = _paired_tests(scored) if task != "clinical" else []
    beside = published_table(published) if published else None
    document = {
        "format": FORMAT,
        "task": task,
        "reading": reading if task in ("efficiency", "hardware") else None,
        "profile": scored[0].results["profile"],
        "truth_sha256": scored[0].results["provenance"]["truth_sha256"],
        "rows": rows,
        "paired_tests": tests,
        "pareto_front": _front([s.entry for s in scored]),
        "published": beside.name if beside else None,
    }
    _say(document)
    if out is not None:
        make_directory(out)
        write_json(out / "ranking.json", document)
        names = list(dict.fromkeys(key for row in rows for key in row if key != "figures"))
        write_text(out / "ranking.csv", csv_text(names, [[row.get(name, "") for name in names] for row in rows]))
        write_text(out / "index.html", rank_page(document, [s.entry for s in scored], beside))
        say(f"ranking: {out / 'index.html'}, ranking.json, ranking.csv")
    return document


def _scored(folder: Path, task: Task) -> Scored:
    results = load_results(folder)
    if results["type"] != "classification":
        raise UserError(f"{folder}: these are results of {results['type']}; rankings are made of classification.")
    figures = results["profiles"][results["profile"]]["figures"]
    if task == "hardware":
        measured = results.get("measured")
        if measured is None:
            raise UserError(
                f"{folder}: the hardware task ranks times that were measured here; run 'challenge time' and score with "
                "--timing."
            )
        fps = measured["fps"]
    else:
        fps = results["speed"]["fps"]["value"] if results["speed"] else None
    entry = Entry(
        results["team"],
        figures["mcc"]["value"],
        figures["recall"]["value"],
        figures["specificity"]["value"],
        fps,
        results.get("training_images"),
        str(results["run"]),
        bool(results.get("organizer")),
    )
    return Scored(folder, results, entry)


def _check(scored: Sequence[Scored], task: Task) -> None:
    """One truth, one profile, at most five runs a team, no run twice."""
    first = scored[0]
    for other in scored[1:]:
        if other.results["provenance"]["truth_sha256"] != first.results["provenance"]["truth_sha256"]:
            raise UserError(
                f"{other.folder} and {first.folder} were scored against different truths; score both against one."
            )
        if other.results["profile"] != first.results["profile"]:
            raise UserError(
                f"{other.folder} was scored by {other.results['profile']}, {first.folder} by "
                f"{first.results['profile']}; score both by one profile."
            )
    runs = Counter((s.entry.team, s.results["task"]) for s in scored)
    for (team, of_task), count in runs.items():
        if count > MOST_RUNS:
            raise UserError(
                f"team {team} has {count} runs of {of_task}; at most {MOST_RUNS} take part: leave some out."
            )
    names = Counter((s.entry.team, s.results["task"], s.entry.run) for s in scored)
    for (team, of_task, run), count in names.items():
        if count > 1 and task != "clinical":
            raise UserError(f"run {run} of team {team} ({of_task}) is there {count} times; name runs apart with --run.")


def _ranked(scored: Sequence[Scored], task: Task, reading: Reading) -> list[dict[str, Any]]:
    """The best run of each team in order; organizers and those below a threshold are shown without a rank."""
    best = ranking.best_runs([s.entry for s in scored])
    if task == "classification":
        ordered = ranking.by_quality(best)
        outside: list[tuple[Entry, str]] = []
    else:
        timed = [entry for entry in best if entry.fps is not None]
        ordered = ranking.by_speed_above_threshold(timed) if reading == "A" else ranking.by_quality_in_real_time(timed)
        limit = "sensitivity or specificity below 0.85" if reading == "A" else "below 45 images a second"
        outside = [(e, "no times" if e.fps is None else limit) for e in ranking.by_quality(best) if e not in ordered]
    by_run = {(s.entry.team, s.entry.run): s for s in scored}
    rows, place = [], 0
    for entry, why in [*((e, "") for e in ordered), *outside]:
        if not why and entry.organizer:
            why = "organizers' own"
        place += not why
        rows.append(_row(by_run[entry.team, entry.run], place if not why else None, why))
    return rows


def _row(scored: Scored, place: int | None, why: str) -> dict[str, Any]:
    entry = scored.entry
    figures = scored.results["profiles"][scored.results["profile"]]["figures"]
    return {
        "rank": place,
        "team": entry.team,
        "run": entry.run,
        "mcc": entry.mcc,
        "recall": entry.recall,
        "specificity": entry.specificity,
        "fps": entry.fps,
        "note": why,
        "figures": {"mcc": figures["mcc"], "recall": figures["recall"], "specificity": figures["specificity"]},
    }


def _clinical(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """The Medico report's last table: ranks of MCC, of its change in the second task, and of speed, and their mean."""
    first = ranking.best_runs([s.entry for s in scored if s.results["task"] == "classification"])
    second = {
        e.team: e
        for e in ranking.best_runs([s.entry for s in scored if s.results["task"] in ("efficiency", "hardware")])
    }
    if not first:
        raise UserError(
            "the clinical table needs results of the task 'classification'; name it with --task when scoring."
        )
    missing = [e.team for e in first if e.team not in second or second[e.team].fps is None]
    if missing:
        raise UserError(
            f"team {missing[0]} has no results of the task 'efficiency' with times; the clinical table needs both."
        )
    by_mcc = ranking.dense_ranks({e.team: float(ranking.four_digits(e.mcc)) for e in first}, highest_first=True)
    table_rows = {
        e.team: ranking.Applicability(
            by_mcc[e.team],
            ranking.robustness_rank(e.mcc, second[e.team].mcc),
            ranking.speed_rank(second[e.team].fps or 0.0),
        )
        for e in first
    }
    places = ranking.clinical_ranks(table_rows)
    rows = [
        {
            "rank": places[e.team],
            "team": e.team,
            "mcc": e.mcc,
            "mcc_second_task": second[e.team].mcc,
            "fps": second[e.team].fps,
            "mcc_rank": table_rows[e.team].mcc_rank,
            "robustness_rank": table_rows[e.team].robustness_rank,
            "speed_rank": table_rows[e.team].speed_rank,
            "mean_of_ranks": table_rows[e.team].mean_of_ranks,
        }
        for e in first
    ]
    return sorted(rows, key=lambda row: (row["rank"], row["team"]))


def _front(entries: Sequence[Entry]) -> list[str]:
    return [entry.team for entry in ranking.pareto_front(entries)]


@dataclass(frozen=True)
class _Answers:
    keys: list[tuple[str, str]]
    groups: NDArray[np.int64]
    truth: list[str]
    answer: list[str]


def _read_answers(folder: Path) -> _Answers:
    path = folder / ANSWERS
    found = read_table(path, ",", ("file",), ("file", "frame", "group", "truth", "answer", "confidence"))
    cells = [row.cells for row in found.rows]
    return _Answers(
        [(c[0], c[1]) for c in cells],
        np.array([int(c[2]) for c in cells], np.int64),
        [c[3] for c in cells],
        [c[4] for c in cells],
    )


def _paired_tests(scored: Sequence[Scored]) -> list[dict[str, Any]]:
    """MCC of every two systems on the same drawn groups, corrected for the number of pairs (Holm)."""
    if len(scored) < 2:
        return []
    bootstrap = scored[0].results["bootstrap"]
    samples, seed, level = int(bootstrap["samples"]), int(bootstrap["seed"]), float(bootstrap["confidence"])
    weights: NDArray[np.float64] | None = None
    replicates: dict[str, NDArray[np.float64]] = {}
    for item in scored:
        answers = _read_answers(item.folder)
        if weights is None:
            weights = group_weights(answers.groups, samples, seed)
        elif weights.shape[1] != len(answers.keys):
            raise UserError(f"{item.folder / ANSWERS} has other images than the first; score it again.")
        names = {name: i for i, name in enumerate(sorted({*answers.truth, *answers.answer}))}
        confusions = weighted_confusions(
            np.array([names[n] for n in answers.truth]),
            np.array([names[n] for n in answers.answer]),
            len(names),
            weights,
        )
        replicates[_name(item)] = square_mcc(confusions)
    keys = list(replicates)
    values = {_name(s): s.results["house"]["mcc_multiclass"] for s in scored}
    pairs = [(a, b) for i, a in enumerate(keys) for b in keys[i + 1 :]]
    raw = {f"{a} − {b}": paired_p_value(replicates[a], replicates[b]) for a, b in pairs}
    corrected = holm(raw)
    tests = []
    for a, b in pairs:
        interval = percentile_interval(replicates[a] - replicates[b], level)
        tests.append(
            {
                "a": a,
                "b": b,
                "difference": values[a] - values[b],
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "p": raw[f"{a} − {b}"],
                "p_corrected": corrected[f"{a} − {b}"],
            }
        )
    return tests


def _name(item: Scored) -> str:
    return f"{item.entry.team} #{item.entry.run}" + (
        f" ({item.results['task']})" if item.results["task"] != "classification" else ""
    )


def _say(document: dict[str, Any]) -> None:
    title = document["task"] + (f", reading {document['reading']}" if document["reading"] else "")
    if document["task"] == "clinical":
        columns = ["rank", "team", "MCC rank", "robustness", "speed", "mean"]
        keys = ("mcc_rank", "robustness_rank", "speed_rank")
        lines = [
            [str(r["rank"]), r["team"], *(str(r[k]) for k in keys), f"{r['mean_of_ranks']:.2f}"]
            for r in document["rows"]
        ]
    else:
        columns, lines = RANKED_COLUMNS, ranked_rows(document)
    table(f"ranking by {title}, profile {document['profile']}", columns, lines)
    for test in document["paired_tests"]:
        low_high = "" if test["low"] is None else f" ({test['low']:+.4f} to {test['high']:+.4f})"
        say(
            f"{test['a']} − {test['b']}: MCC {test['difference']:+.4f}{low_high}, p = {test['p']:.3g}, corrected "
            f"{test['p_corrected']:.3g}"
        )
    if document["task"] in ("efficiency", "hardware") and not any(r["rank"] for r in document["rows"]):
        warn("nobody reaches the threshold; nobody is ranked.")
