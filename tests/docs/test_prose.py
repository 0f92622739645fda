"""README and docs are easy to read: short sentences."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MOST_WORDS = 18
MOST_LINES_OF_README = 200


def sentences(markdown: str) -> list[str]:
    """Sentences of running text: no code, tables, headings, images or comments."""
    text = re.sub(r"^```.*?^```$|^(?: {4}|\||#|!\[|<!--).*?$", "\n", markdown, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`]*`", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "\n", text, flags=re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n", text)
    found = [part.strip() for paragraph in paragraphs for part in re.split(r"(?<=[.!?:])\s+", paragraph)]
    return [sentence for sentence in found if len(sentence.split()) > 1]


def mean_words(markdown: str) -> float:
    return mean(len(sentence.split()) for sentence in sentences(markdown))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_sentences_are_short(page: Path) -> None:
    assert mean_words(page.read_text(encoding="utf-8")) <= MOST_WORDS


def test_the_measure_sees_long_sentences() -> None:
    long = "This sentence goes on and on, " * 6
    assert mean_words(f"# A title\n\n{long}until it ends.\n\n```sh\nshort\n```\n\n    code\n") > MOST_WORDS
    assert mean_words("It is short. It is clear.\n") == 3


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_README
