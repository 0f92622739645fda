"""Templates over one frame: escaping, missing names, folded and sorted tables in a real browser."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from html import escape, unescape
from pathlib import Path
from typing import Any

import jinja2
import pytest

from panendofm.reports import PageImage, Table, render_page
from panendofm.reports.charts import ForestRow, forest_chart

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
WIDTHS = (400, 700, 1000, 1200, 1600)
EVIL = "<script>alert('x')</script>"
TEMPLATE = """{% extends "frame.html" %}
{% import "parts.html" as parts %}
{% block body %}
<h1>{{ title }}</h1>
{{ parts.warnings([title]) }}
{% call parts.section(title) %}{{ parts.table(scores) }}{% endcall %}
{% call parts.details(title) %}{{ parts.gallery(images) }}{% endcall %}
{{ chart }}
{% endblock %}
"""
# What our pages hold: a table of words, one of numbers, long names, code, a wide chart.
WIDE_TEMPLATE = """{% extends "frame.html" %}
{% import "parts.html" as parts %}
{% block body %}
<h1>{{ title }}</h1>
{{ parts.table(words) }}
{{ parts.table(numbers) }}
<pre>{{ "key: value, " * 40 }}</pre>
{{ chart }}
{% endblock %}
"""


@pytest.fixture()
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with a template of its own, as stages have."""
    folder = tmp_path / "pages_of_a_test" / "templates"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "sample.html").write_text(TEMPLATE)
    (folder / "wide.html").write_text(WIDE_TEMPLATE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, folder.parent.name, raising=False)
    return folder.parent.name


def sample(package: str, title: str = EVIL, rows: int = 3) -> str:
    scores = Table([title, "top-1"], [[f"{title} {number}", f"{number / 10:.1f}"] for number in range(rows)])
    images = [PageImage(b"\xff\xd8\xff", title), PageImage(None, title)]
    chart = forest_chart(title, [ForestRow(title, 0.8, 0.7, 0.9)], x_label=title)
    return render_page(package, "sample.html", title=title, scores=scores, images=images, chart=chart)


def test_every_part_escapes_what_it_is_given(package: str) -> None:
    shown = sample(package)
    assert EVIL not in shown
    # Nothing was lost, either: title, heading, warning, section, details, column, rows, alt and caption, chart.
    assert shown.count("&lt;script&gt;") >= 14


def test_a_name_that_nobody_gave_is_an_error(package: str) -> None:
    with pytest.raises(jinja2.UndefinedError, match="scores"):
        render_page(package, "sample.html", title="t", images=[], chart="")


def test_marked_rows_and_best_cells(package: str) -> None:
    table = Table(["a", "b"], [["x", 1], ["y", 2]], best=frozenset({(1, 1)}), marked=frozenset({0}))
    shown = render_page(package, "sample.html", title="t", scores=table, images=[], chart="")
    assert '<tr class="marked"><td>x</td><td>1</td></tr>' in shown
    assert '<tr><td>y</td><td class="best">2</td></tr>' in shown


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_long_tables_fold_and_columns_sort(package: str, tmp_path: Path) -> None:
    rows = [
        ["a", "1,200"],
        ["b", "–"],
        ["c", "−3"],
        ["d", "90"],
        *([f"e{number}", str(number)] for number in range(40)),
    ]
    table = Table(["name", "count"], rows, fold_after=5)
    shown = render_page(package, "sample.html", title="t", scores=table, images=[], chart="")
    script = """
      const cells = () => [...document.querySelectorAll("tbody tr:not(.hidden) td:last-child")];
      const visible = () => cells().map(cell => cell.textContent);
      const found = {folded: visible()};
      document.querySelectorAll("th")[1].click();
      found.sorted = visible();
      document.querySelectorAll("th")[1].click();
      document.querySelector("button.unfold").click();
      found.ascending = visible();
      document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
    """
    page = tmp_path / "page.html"
    page.write_text(shown.replace("</body>", f"<script>{script}</script></body>"))
    found = found_in(page, tmp_path)
    assert found["folded"] == ["1,200", "–", "−3", "90", "0"]
    assert found["sorted"] == ["1,200", "90", "39", "38", "37"]
    assert found["ascending"][:3] == ["−3", "0", "1"] and found["ascending"][-2:] == ["1,200", "–"]
    assert len(found["ascending"]) == len(rows)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_nothing_is_cut_off_at_any_width(package: str, tmp_path: Path) -> None:
    words = [
        "a1b2c3d4e5f6a7b8c9d0",
        "corpus",
        "12",
        "0%",
        "blurred 7, too_dark 5",
        "100% of its frames: blurred; all gone",
    ]
    columns = ["source", "corpus", "seen", "share", "dropped", "look at it because"]
    scores = [f"network {'with a long name ' * 3}", *(f"0.{1234 + i}" for i in range(9))]
    shown = render_page(
        package,
        "wide.html",
        title="a_long_name_without_any_space_" * 4,
        words=Table(columns, [words] * 3, numeric=False),
        numbers=Table(["network", *(f"balanced accuracy k={i}" for i in range(9))], [scores] * 3),
        chart=forest_chart("t", [ForestRow("a network with a long name", 0.8, 0.7, 0.9)]),
    )
    frames = [f'<iframe width="{w}" height="600" srcdoc="{escape(shown, quote=True)}"></iframe>' for w in WIDTHS]
    script = """
      const found = [...document.querySelectorAll("iframe")].map(f => {
        const page = f.contentDocument.documentElement;
        const boxes = [...f.contentDocument.querySelectorAll(".scroll")];
        return {width: f.clientWidth, page: page.scrollWidth, tables: boxes.map(b => b.scrollWidth - b.clientWidth)};
      });
      document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
    """
    page = tmp_path / "frames.html"
    page.write_text(
        f"<!doctype html><style>iframe {{ border: 0 }}</style>{''.join(frames)}"
        f"<script>addEventListener('load', () => {{{script}}})</script>"
    )
    for one in found_in(page, tmp_path):
        assert one["page"] <= one["width"], f"the page is wider than {one['width']} pixels: {one}"
        of_words, of_numbers = one["tables"]
        assert of_words <= 0, f"the table of words is cut at {one['width']} pixels"
        assert of_numbers <= 0 or one["width"] < 1000, f"the table of numbers is cut at {one['width']} pixels"


def found_in(page: Path, folder: Path) -> Any:
    """What the page's script leaves as JSON between FOUND and END, in a real browser."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--dump-dom"]
    command = [CHROMIUM or "", *flags, f"--user-data-dir={folder / 'profile'}", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    found = re.search(r"FOUND(.*)END", unescape(dom))
    assert found is not None, dom[-500:]
    return json.loads(found[1])
