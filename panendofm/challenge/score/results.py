"""What scoring leaves behind: results.json for programs, CSVs for spreadsheets, answers.csv for paired tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.score.format_metric import shown
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json_object, sha256_of, write_json, write_text

FORMAT = 1
RESULTS, ANSWERS = "results.json", "answers.csv"
SUMMARY_COLUMNS = (
    *("team", "task", "run", "tp", "tn", "fp", "fn", "precision", "recall", "specificity", "accuracy", "f1", "mcc"),
    *("fps", "mean_ms", "p95_ms", "n"),
)


def exact(value: float) -> str:
    """All digits, so that what is read back is what was written; whole numbers without a point."""
    return repr(float(value)).removesuffix(".0")


def save_results(out: Path, results: dict[str, Any]) -> None:
    make_directory(out)
    write_json(out / RESULTS, {"format": FORMAT, **results})


def load_results(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS if folder.is_dir() else folder
    results: dict[str, Any] = read_json_object(path)
    if not isinstance(results, dict) or results.get("format") != FORMAT or "type" not in results:
        raise UserError(f"{path}: these are no results of 'challenge score'; score the submission first.")
    return results


def save_label_tables(out: Path, results: dict[str, Any], truth: Truth, answers: Answers) -> None:
    """confusion.csv, classes.csv, summary.csv and answers.csv."""
    classes = results["classes"]
    columns = [*classes, *(["(missing)"] if results["missing_counted_as_wrong"] else [])]
    rows = [[name, *row] for name, row in zip(classes, results["confusion"], strict=True)]
    write_text(out / "confusion.csv", csv_text(["truth/prediction", *columns], rows))
    figures = ("recall", "precision", "specificity", "npv", "accuracy", "f1", "mcc")
    write_text(
        out / "classes.csv",
        csv_text(
            ["class", "pictures", "tp", "fp", "fn", "tn", *figures, "recall_low", "recall_high"],
            [
                [
                    name,
                    *(row[k] for k in ("pictures", "tp", "fp", "fn", "tn")),
                    *("" if row[k] is None else f"{row[k]:.6f}" for k in figures),
                    *(f"{v:.6f}" for v in row["recall_interval"] or ()),
                ]
                for name, row in results["per_class"].items()
            ],
        ),
    )
    write_text(out / "summary.csv", csv_text(SUMMARY_COLUMNS, [summary_row(results)]))
    names = [*truth.classes, ""]
    write_text(
        out / ANSWERS,
        csv_text(
            ["file", "frame", "group", "truth", "answer", "confidence"],
            [
                [name, frame, int(group), names[t], names[a if a != MISSING else -1], f"{c:.6g}"]
                for (name, frame), group, t, a, c in zip(
                    truth.keys, truth.groups, truth.label, answers.label, answers.confidence, strict=True
                )
            ],
        ),
    )


def summary_row(results: dict[str, Any]) -> list[Any]:
    """The row of the organisers' own tables, in the chosen profile."""
    row = results["profiles"][results["profile"]]
    speed = results["speed"]
    times = [f"{speed['fps']['value']:.4f}", *(f"{speed[k]:.4f}" for k in ("mean_ms", "p95_ms"))] if speed else [""] * 3
    return [
        *(results[k] for k in ("team", "task", "run")),
        *(f"{row['counts'][k]:g}" for k in ("tp", "tn", "fp", "fn")),
        *(
            "" if (value := row["figures"][k]["value"]) is None else f"{value:.6f}"
            for k in ("precision", "recall", "specificity", "accuracy", "f1", "mcc")
        ),
        *times,
        results["n"],
    ]


def figure_table(figures: dict[str, Any]) -> list[list[str]]:
    return [[name, shown(value)] for name, value in figures.items()]


def provenance(truth: Path, submission: Path) -> dict[str, str]:
    """Which files were compared: names without folders, and checksums."""
    return {
        "truth": truth.name,
        "truth_sha256": sha256_of(truth),
        "submission": submission.name,
        "submission_sha256": sha256_of(submission),
    }
