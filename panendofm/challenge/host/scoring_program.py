"""What a platform runs on each submission: our scorer, with the settings that lie beside the hidden truth.

Codabench mounts the truth as input/ref and the submission as input/res, and reads output/scores.json.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from panendofm.challenge.config import ScoreConfig
from panendofm.challenge.score.results import Results
from panendofm.challenge.score.run import score
from panendofm.records.documents import read_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_json

SETTINGS = "scoring.json"
SUFFIXES = (".csv", ".json", ".xml")


def run(arguments: list[str]) -> int:
    """INPUT OUTPUT; the exit code. A faulty submission is one sentence for its author."""
    try:
        results = score_submission(Path(arguments[0]), Path(arguments[1]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(", ".join(f"{name} {value.value}" for name, value in results.metrics.items()))
    return 0


def score_submission(source: Path, out: Path) -> Results:
    settings = read_document(ScoreConfig, source / "ref" / SETTINGS, "the settings of the scoring program")
    submission = find_submission(source / "res")
    with tempfile.TemporaryDirectory() as folder:
        results = score(submission, replace(settings, truth=str(source / "ref" / settings.truth), out=folder))
    write_json(make_directory(out) / "scores.json", leaderboard(results))
    return results


def find_submission(folder: Path) -> Path:
    """The one table of a submission; masks may lie beside it."""
    found = [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in SUFFIXES and not any(part.startswith((".", "__")) for part in path.parts[-3:])
    ]
    if len(found) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise UserError(f"a submission holds one file of answers (.csv, .json or .xml), here are: {names}.")
    return found[0]


def leaderboard(results: Results) -> dict[str, float]:
    """By column: each metric, and the limits of its interval. What is not defined counts as 0: nothing was found."""
    found = {}
    for name, estimate in results.metrics.items():
        found[name] = estimate.value or 0.0
        if estimate.low is not None and estimate.high is not None:
            found[f"{name}_low"] = estimate.low
            found[f"{name}_high"] = estimate.high
    return found
