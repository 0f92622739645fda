"""One page with links to all pages below a folder."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from panendofm.reports import render_page
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_text
from panendofm.runtime.names import printable

PAGES = "pages.html"
_TITLE = re.compile(r"<title>(.*?)</title>", re.DOTALL)
_HEAD_CHARACTERS = 4000


@dataclass(frozen=True)
class LinkedPage:
    title: str
    place: str  # below the folder, as people read it
    url: str


def write_pages(folder: Path) -> Path:
    """FOLDER/pages.html, which names every page below FOLDER by its title."""
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; name the one that holds your runs and results.")
    found = list(_pages_below(folder))
    if not found:
        raise UserError(f"{folder} holds no pages yet; run a stage that writes one, such as 'launch report RUN'.")
    path = folder / PAGES
    write_text(path, render_page("launch", "pages.html", title=printable(folder.resolve().name), pages=found))
    return path


def _pages_below(folder: Path) -> Iterator[LinkedPage]:
    for path in sorted(folder.rglob("*.html")):
        if path.name != PAGES:
            place = path.relative_to(folder).as_posix()
            yield LinkedPage(_title_of(path) or place, printable(place), quote(place))


def _title_of(path: Path) -> str | None:
    with path.open(encoding="utf-8", errors="replace") as stream:
        found = _TITLE.search(stream.read(_HEAD_CHARACTERS))
    return html.unescape(found[1]).strip() if found else None
