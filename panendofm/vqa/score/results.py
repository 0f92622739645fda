"""Score contestants on a bench: results.json, tables and the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from panendofm.runtime.console import say, table, warn
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.files import make_directory, write_json, write_text
from panendofm.scoring.answers.choices import accuracies_by
from panendofm.scoring.statistics.intervals import with_interval
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml
from panendofm.vqa.client.answers import AnswerSet, read_answer_set
from panendofm.vqa.score.contamination import read_contamination
from panendofm.vqa.score.metrics import (
    AXES,
    Frame,
    accounting,
    accuracy_dict,
    contestant_figures,
    frame_of,
    pair_tests,
    right_of,
)
from panendofm.vqa.score.page import write_page
from panendofm.vqa.score.settings import ScoreSettings
from panendofm.vqa.score.shortcuts import TOLERATED, check_shortcuts, shortcut_sheets
from panendofm.vqa.score.verdicts import Sheet, sheet_of

FORMAT = 1


def score_bench(bench: Bench, answers: Sequence[Path], settings: ScoreSettings) -> dict[str, Any]:
    """Score all contestants on the questions that all of them were asked."""
    sets = _unique_names([read_answer_set(path, bench, settings.allow_partial) for path in answers])
    sheets = [sheet_of(bench, one, settings.mode) for one in sets]
    choices = [item for item in bench.items if item.kind == "choice"]
    items = common_items(choices, sheets) if settings.allow_partial else choices
    frame = frame_of(items, settings.draws)
    out = make_directory(settings.out)
    results: dict[str, Any] = {
        "format": FORMAT,
        "bench": bench.manifest["name"],
        "bench_sha256": bench.checksum,
        "reviewed": bench.manifest.get("reviewed", 0),
        "questions": len(items),
        "questions_in_bench": len(choices),
        "groups": len(np.unique(frame.groups)),
        "draws": settings.draws,
        "parser": settings.mode,
        "contestants": {},
    }
    for one, sheet in zip(sets, sheets, strict=True):
        figures = contestant_figures(frame, sheet)
        results["contestants"][sheet.name] = {
            "kind": one.run.get("kind", "model"),
            "prompt": sheet.prompt,
            **figures,
            "accounting": accounting(one),
        }
    results["pairs"] = pair_tests(frame, sheets)
    shortcuts = shortcut_sheets(items)
    results["shortcuts"] = check_shortcuts(frame, shortcuts)
    if settings.contamination is not None:
        results["contamination"] = _contamination(bench, frame, sheets, settings.contamination)
    results["published"] = read_package_yaml("score/published", "endobench.yaml")
    _write(bench, results, frame, sets, sheets, out, settings)
    return results


def check_bench(bench: Bench, draws: int) -> int:
    """Say which shortcuts a bench leaves open; 1 when one is flagged."""
    frame = frame_of([item for item in bench.items if item.kind == "choice"], draws)
    rows = check_shortcuts(frame, shortcut_sheets(frame.items))
    head = ["shortcut", "task", "n", "accuracy", "chance", ""]
    lines = []
    for row in rows:
        figures = [str(row["n"]), _number(row["accuracy"]), _number(row["chance"])]
        lines.append([row["shortcut"], row["task"], *figures, "flagged" if row["flagged"] else ""])
    table(f"{bench.manifest['name']}: {len(frame.items)} questions, files as their checksums say", head, lines)
    flagged = sum(row["flagged"] for row in rows)
    say(f"{flagged} shortcuts are more than {TOLERATED} above chance; reviewed: {bench.manifest.get('reviewed', 0)}")
    return int(flagged > 0)


def common_items(items: Sequence[Item], sheets: Sequence[Sheet]) -> list[Item]:
    """Questions that every contestant was asked: only on these they can be compared."""
    return [item for item in items if all(sheet.plain(item) is not None for sheet in sheets)]


def _unique_names(sets: list[AnswerSet]) -> list[AnswerSet]:
    """Two runs of one model are told apart by their folders."""
    names = [one.name for one in sets]
    return [
        AnswerSet(f"{one.name} [{one.folder.name}]", one.folder, one.run, one.answers)
        if names.count(one.name) > 1
        else one
        for one in sets
    ]


def _contamination(bench: Bench, frame: Frame, sheets: Sequence[Sheet], path: Path) -> dict[str, Any]:
    report = read_contamination(path, bench)
    seen = np.isin([item.sha256 for item in frame.items], report["seen"])
    parts = {name: own for name, own in (("seen", seen), ("not_seen", ~seen)) if own.any()}
    accuracy = {
        sheet.name: {
            name: accuracy_dict(figures)
            for name, figures in accuracies_by(right_of(frame, sheet), frame.n_options, parts, frame.weights).items()
        }
        for sheet in sheets
    }
    return {
        "places": report["places"],
        "pictures_seen": len(report["seen"]),
        "questions_seen": int(seen.sum()),
        "seen_ids": [item.id for item, flag in zip(frame.items, seen, strict=True) if flag],
        "accuracy": accuracy,
    }


# ------------------------------------------------------------------------------------------ files


def leaderboard_rows(results: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The main table, best first."""
    head = ["contestant", "n", "accuracy (95%)", "above chance", "macro", "rotation", "circular", "blind", "unreadable"]
    head += ["cost/1000", "seconds"]
    rows = []
    for name, own in _ranked(results):
        whole, money = own["all"], own["accounting"]
        low, high = whole["interval"] or (None, None)
        unreadable = sum(count for status, count in own["statuses"].items() if status != "ok")
        rows.append(
            [
                name,
                str(whole["n"]),
                with_interval(whole["accuracy"], low, high),
                f"{whole['chance_corrected']:.3f}",
                f"{own['macro_over_tasks']:.3f}",
                _number(own.get("rotation", {}).get("rotation_accuracy")),
                _number(own.get("rotation", {}).get("circular_accuracy")),
                _number(own.get("blind", {}).get("accuracy")),
                str(unreadable),
                _number(money["cost_per_1000"]),
                _number(money["median_latency_s"], 2),
            ]
        )
    return head, rows


def task_rows(results: dict[str, Any], axis: str) -> tuple[list[str], list[list[str]]]:
    names = sorted({name for own in results["contestants"].values() for name in own[axis]})
    head = ["contestant", *names]
    rows = []
    first = next(iter(results["contestants"].values()))
    rows.append(["questions", *(str(first[axis][name]["n"]) for name in names)])
    rows.append(["chance", *(f"{first[axis][name]['chance']:.3f}" for name in names)])
    for name, own in _ranked(results):
        rows.append([name, *(_number(own[axis].get(value, {}).get("accuracy")) for value in names)])
    return head, rows


def _ranked(results: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return sorted(results["contestants"].items(), key=lambda pair: (-pair[1]["all"]["accuracy"], pair[0]))


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _write(
    bench: Bench,
    results: dict[str, Any],
    frame: Frame,
    sets: Sequence[AnswerSet],
    sheets: Sequence[Sheet],
    out: Path,
    settings: ScoreSettings,
) -> None:
    write_json(out / "results.json", results)
    head, rows = leaderboard_rows(results)
    caption = (
        f"{results['bench']}: {results['questions']} of {results['questions_in_bench']} questions, "
        f"reviewed: {results['reviewed']}, chance {next(iter(results['contestants'].values()))['all']['chance']:.3f}"
    )
    write_text(out / "table.md", f"{caption}\n\n{_markdown(head, rows)}\n\n{_markdown(*task_rows(results, 'task'))}\n")
    write_text(out / "table.tex", _latex(head, rows, caption))
    write_text(out / "summary.csv", _summary_csv(results))
    lines = []
    for sheet in sheets:
        for (id_, variant), verdict in sheet.verdicts.items():
            lines.append(json.dumps({"id": id_, "model": sheet.name, "variant": variant.to_dict(), **verdict.__dict__}))
    write_text(out / "parsed.jsonl", "".join(line + "\n" for line in lines))
    write_page(
        bench, results, frame.items, sets, sheets, (head, rows), out / "index.html", settings.examples_per_subtask
    )
    table(caption, head, rows)
    for row in results["shortcuts"]:
        if row["flagged"]:
            warn(f"{row['task']}: the {row['shortcut']} gets {row['accuracy']:.3f}, guessing {row['chance']:.3f}.")
    say(f"results: {out / 'index.html'}, results.json, table.md, table.tex, summary.csv, parsed.jsonl")


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _latex(head: list[str], rows: list[list[str]], caption: str) -> str:
    def cells(line: list[str]) -> str:
        return " & ".join(c.replace("&", r"\&").replace("_", r"\_").replace("%", r"\%") for c in line) + r" \\"

    body = "\n".join(cells(row) for row in rows)
    columns = "l" + "r" * (len(head) - 1)
    note = caption.replace("_", r"\_")
    lines = [f"% {note}", rf"\begin{{tabular}}{{{columns}}}", r"\hline", cells(head), r"\hline", body, r"\hline"]
    return "\n".join([*lines, r"\end{tabular}", ""])


def _summary_csv(results: dict[str, Any]) -> str:
    """One line for each contestant and part of the bench."""
    head = ["contestant", "axis", "value", "n", "accuracy", "low", "high", "chance", "chance_corrected"]
    rows = []
    for name, own in results["contestants"].items():
        parts = [("all", "all", own["all"])]
        parts += [(axis, value, figures) for axis in AXES for value, figures in own[axis].items()]
        for axis, value, figures in parts:
            low, high = figures["interval"] or ("", "")
            shares = [figures["accuracy"], low, high, figures["chance"], figures["chance_corrected"]]
            rows.append([name, axis, value, figures["n"], *shares])
    return csv_text(head, rows)
