"""HTML pages that need no other file and no network: the frame, tables, pictures inside the page.

Text is escaped by the functions here; what they return is HTML. A page adds its own few lines of style.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Any

STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fafafa; margin: 0; }
main { max-width: 110rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0.5rem 0 0; font-size: 1.6rem; overflow-wrap: anywhere; }
h2 { margin: 2rem 0 0.5rem; font-size: 1.2rem; }
.quiet { color: #666; }
.card, figure { background: #fff; border: 1px solid #e3e3e3; border-radius: 8px; padding: 0.75rem; margin: 0; }
figcaption { color: #666; font-size: 0.85rem; overflow-wrap: anywhere; }
img, svg { max-width: 100%; height: auto; }
.scroll { overflow-x: auto; }
.scroll + .scroll { margin-top: 1rem; }
table { border-collapse: collapse; font-size: 0.9rem; }
td, th { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #eee; vertical-align: top; }
td { overflow-wrap: anywhere; min-width: 3rem; }
table.numbers td, table.numbers th { text-align: right; }
table.numbers td { white-space: nowrap; min-width: 0; }
table.numbers td:first-child, table.numbers th:first-child { text-align: left; white-space: pre-wrap; min-width: 6rem; }
td.best { font-weight: 700; }
@media (max-width: 50rem) {
  table { font-size: 0.8rem; }
  table.numbers td, table.numbers th { padding-right: 0.4rem; }
  table.words thead { display: none; }
  table.words tr { display: block; padding: 0.4rem 0; border-bottom: 1px solid #ccc; }
  table.words td { display: block; border: 0; padding: 0; }
  table.words td:empty { display: none; }
  table.words td:not(:first-child)::before { content: attr(data-of) ": "; color: #666; }
}
pre { background: #fff; border: 1px solid #e3e3e3; border-radius: 8px; padding: 0.75rem; overflow-x: auto; }
pre { font-size: 0.8rem; }
""".strip()


def page(title: str, body: str, style: str = "") -> str:
    """A whole document; `body` is HTML, `style` comes after the common one."""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{text(title)}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>\n{STYLE}\n{style.strip()}\n</style>\n</head>\n'
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def text(value: Any) -> str:
    return html.escape(str(value), quote=True)


def section(title: str, body: str) -> str:
    """Nothing when there is no body."""
    return f"<section><h2>{text(title)}</h2>{body}</section>" if body else ""


def details(title: str, body: str) -> str:
    """Folded until somebody opens it."""
    return f"<details><summary>{text(title)}</summary>{body}</details>"


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: bool = False,
    best: Sequence[Sequence[bool]] | None = None,
) -> str:
    """`numbers` sets all columns but the first to the right; `best` marks cells.

    On a narrow screen a row of any other table becomes a list, with the columns' names before its cells.
    """
    head = "".join(f"<th>{text(column)}</th>" for column in columns)
    lines = []
    for number, row in enumerate(rows):
        marks = best[number] if best is not None else [False] * len(row)
        of = [""] * len(row) if numbers else [f' data-of="{text(column)}"' for column in columns]
        cells = (
            f"<td{' class=best' if mark else ''}{named}>{text(c)}</td>"
            for c, mark, named in zip(row, marks, of, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    kind = "numbers" if numbers else "words"
    body = "\n".join(lines)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def image(content: bytes, alt: str = "", kind: str = "png") -> str:
    """A picture inside the page; `kind`: png, jpeg, …"""
    return f'<img alt="{text(alt)}" title="{text(alt)}" src="{data_url(content, kind)}">'


def data_url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"
