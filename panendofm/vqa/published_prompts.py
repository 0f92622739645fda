"""The prompts of a paper, word by word, beside our own: data with its source, asked by `ask.prompt=published`.

A wording holds the paper's placeholders for what a question is about; these are filled when a bench is built. Those for
options stay until it is asked, because options may be rotated.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources

from panendofm.records.documents import parse_document
from panendofm.runtime.errors import UserError
from panendofm.runtime.yaml_files import parse_yaml
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.keys import keyed

PUBLISHED, OPEN = "published", "open"
PROFILES = (PUBLISHED, OPEN)
# Filled in when a question is asked: the options on lines of their own, in one line, and their names alone.
_LATE = ("options", "option_list", "names")


@dataclass(frozen=True)
class PublishedPrompts:
    source: str
    language: str = "en"
    translated: bool = False  # by us, where the paper prints another language than it asked in
    system: str = ""
    layout: str = "{question}"
    wordings: dict[str, list[str]] = field(default_factory=dict)  # by code of the question type
    open_ended: dict[str, str] = field(default_factory=dict)

    def text(self, code: str, key: str, seed: int, values: dict[str, object]) -> str:
        """The wording that a hash picks, laid out; empty where the paper has none."""
        wordings = self.wordings.get(code, [])
        if not wordings:
            return ""
        wording = wordings[keyed(seed, "published", key) % len(wordings)]
        return self.layout.replace("{question}", _filled(wording, values))

    def open_text(self, code: str) -> str:
        return self.open_ended.get(code, "")


@dataclass(frozen=True)
class PromptsNote:
    """What a bench keeps of a paper's prompts beside the questions themselves."""

    source: str
    system: str = ""
    translated: bool = False


def _filled(wording: str, values: dict[str, object]) -> str:
    """Only what is known here: braces of options stay."""
    for _, name, _, _ in string.Formatter().parse(wording):
        if name and name not in _LATE:
            wording = wording.replace(f"{{{name}}}", str(values[name]))
    return wording


def with_options(text: str, options: Sequence[str]) -> str:
    """The options in the order in which they are asked."""
    lettered = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    names = ", ".join(options)
    return (
        text.replace("{options}", "\n".join(lettered))
        .replace("{option_list}", ", ".join(lettered))
        .replace("{names}", names)
    )


def read_prompts(name: str) -> PublishedPrompts:
    """Those of `panendofm/vqa/benchmarks/prompts/NAME.yaml`."""
    path = resources.files("panendofm.vqa.benchmarks").joinpath("prompts", f"{name}.yaml")
    values = parse_yaml(path.read_text(encoding="utf-8"), path.name)
    found = parse_document(PublishedPrompts, values, path.name, "published prompts")
    if not found.source or not found.wordings:
        raise UserError(f"{path.name}: published prompts need source and wordings.")
    return found
