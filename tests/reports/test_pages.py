"""Pages fit the screen: from a telephone's 400 pixels to 1,600, nothing is cut off."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from panendofm.reports import pages

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
WIDTHS = (400, 700, 1000, 1200, 1600)


def sample() -> str:
    """What our pages hold: a table of words, one of numbers, long names, code, a wide picture."""
    words = [
        "a1b2c3d4e5f6a7b8c9d0",
        "corpus",
        "12",
        "0%",
        "blurred 7, too_dark 5",
        "100% of its frames: blurred; all gone",
    ]
    columns = ["source", "corpus", "seen", "share", "dropped", "look at it because"]
    figures = [f"network {'with a long name ' * 3}", *(f"0.{1234 + i}" for i in range(9))]
    body = (
        f"<h1>{'a_long_name_without_any_space_' * 4}</h1>"
        + pages.table(columns, [words] * 3)
        + pages.table(["network", *(f"balanced accuracy k={i}" for i in range(9))], [figures] * 3, numbers=True)
        + f"<pre>{'key: value, ' * 40}</pre>"
        + '<svg width="900" height="30" viewBox="0 0 900 30"><rect width="900" height="30"/></svg>'
    )
    return pages.page("sample", body)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_nothing_is_cut_off_at_any_width(tmp_path: Path) -> None:
    frames = "".join(
        f'<iframe width="{w}" height="600" srcdoc="{escape(sample(), quote=True)}"></iframe>' for w in WIDTHS
    )
    script = """
      const found = [...document.querySelectorAll("iframe")].map(f => {
        const page = f.contentDocument.documentElement;
        const boxes = [...f.contentDocument.querySelectorAll(".scroll")];
        return {width: f.clientWidth, page: page.scrollWidth, tables: boxes.map(b => b.scrollWidth - b.clientWidth)};
      });
      document.body.textContent = "FOUND" + JSON.stringify(found) + "END";
    """
    (tmp_path / "frames.html").write_text(
        f"<!doctype html><style>iframe {{ border: 0 }}</style>{frames}"
        f"<script>addEventListener('load', () => {{{script}}})</script>"
    )
    command = [CHROMIUM or "", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    shown = subprocess.run(
        [*command, f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "frames.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    found = re.search(r"FOUND(.*)END", unescape(shown))
    assert found is not None, shown[-500:]
    for one in json.loads(found[1]):
        assert one["page"] <= one["width"], f"the page is wider than {one['width']} pixels: {one}"
        words, numbers = one["tables"]
        assert words <= 0, f"the table of words is cut at {one['width']} pixels"
        assert numbers <= 0 or one["width"] < 1000, f"the table of numbers is cut at {one['width']} pixels"
