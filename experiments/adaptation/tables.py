"""The README's tables, written anew between their marks from the small files in results/."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from experiments.adaptation.data_findings import prediction_rows, set_rows
from experiments.adaptation.findings import fresh_rows, further_rows, tuning_rows
from experiments.adaptation.plot import draw_curves
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text

README = Path(__file__).resolve().parent / "README.md"
_TUNING = ("arm", "what", "presentations", "kNN top-1, k = 20", "linear probe", "common share", "CPU min", "")
_FRESH = ("arm", "what", "presentations", "seeds", "kNN top-1, k = 20", "linear probe")
_SETS = ("training set", "images", "arm", "seeds", "kNN top-1, k = 20", "linear probe")
_PREDICTIONS = ("training set", "common share", "RankMe", "uniformity", "guess", "outcome", "the guess was")
_FURTHER = ("metric", "images", "recentered start", "adapted", "difference, points")


def update_readme(results: Path, readme: Path = README) -> None:
    text = readme.read_text(encoding="utf-8")
    text = _with_table(text, "tuning", _TUNING, tuning_rows(results))
    text = _with_table(text, "fresh", _FRESH, fresh_rows(results))
    text = _with_table(text, "sets", _SETS, set_rows(results))
    text = _with_table(text, "predictions", _PREDICTIONS, prediction_rows(results))
    for arm, rows in further_rows(results).items():
        text = _with_table(text, f"further {arm}", _FURTHER, rows)
    write_text(readme, text)
    draw_curves(results)
    say(f"{readme.name} has the tables of {len(list(results.glob('*.json')))} result files")


def _with_table(text: str, name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """`text` with the table between the comments «name» and «end of name»."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise UserError(f"{README.name} has no place for the table '{name}'; add the lines '{begin}' and '{end}'.")
    lines = [_line(header), _line(["---"] * len(header)), *(_line(row) for row in rows)]
    body = "\n".join(lines) if rows else "Nothing has been measured yet."
    return re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n{body}\n{end}", text, flags=re.S)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
