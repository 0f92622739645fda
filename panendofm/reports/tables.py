"""Tables for pages, and the same tables as Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_LATEX = str.maketrans(
    {"\\": r"\textbackslash{}", "«": "``", "»": "''", "–": "--", **{sign: f"\\{sign}" for sign in "&%$#_{}"}}
)


@dataclass(frozen=True)
class Table:
    """A table of a page.

    `numeric` sets all columns but the first to the right; on a narrow screen a row of any other table becomes a list
    with the columns' names. `best` are cells (row, column) in bold, `marked` are highlighted rows. Rows after the first
    `fold_after` are hidden until somebody asks for them.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    numeric: bool = True
    best: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    marked: frozenset[int] = field(default_factory=frozenset)
    fold_after: int = 30

    def with_best(self, mark: str) -> list[list[str]]:
        """The rows as text; `mark` is put around the best cells as a format, such as «**{}**»."""
        return [
            [mark.format(cell) if (number, column) in self.best else str(cell) for column, cell in enumerate(row)]
            for number, row in enumerate(self.rows)
        ]


def markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns), *table.with_best("**{}**")]
    return "\n".join("| " + " | ".join(_markdown_cell(cell) for cell in line) + " |" for line in lines)


def _markdown_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def latex(table: Table, caption: str) -> str:
    """A cell that begins with spaces is indented."""
    rows = [[_latex_cell(cell) for cell in row] for row in table.rows]
    for row, column in table.best:
        rows[row][column] = rf"\textbf{{{rows[row][column]}}}"
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex_cell(caption)}}}",
        rf"\begin{{tabular}}{{l{'c' * (len(table.columns) - 1)}}}",
        r"\hline",
        " & ".join(_latex_cell(name) for name in table.columns) + r" \\",
        r"\hline",
        *(" & ".join(row) + r" \\" for row in rows),
        r"\hline",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: object) -> str:
    text = str(cell)
    indent = r"\quad " if text.startswith(" ") else ""
    return indent + text.strip().translate(_LATEX)
