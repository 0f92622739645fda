"""Other words for the questions, by any chat model. A wording that could change the question is not taken."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from panendofm.runtime.console import say, track
from panendofm.runtime.files import atomic_directory
from panendofm.scoring.answers.replies import comparable
from panendofm.vqa.bench.bench_folder import IMAGES, Bench, RephraseNote, write_bench
from panendofm.vqa.bench.config import RephraseConfig
from panendofm.vqa.bench.images.draw import COLORS
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.questions.vocabulary import load_vocabulary
from panendofm.vqa.client.chat import ChatClient

_REQUEST = (
    "Rephrase the question below. Keep its meaning, every number, color and medical term; do not answer it. "
    "Reply with the new wording inside <question> and </question>.\n\n{question}"
)
_FOUND = re.compile(r"<question>(.*?)</question>", re.DOTALL)
_SHORTEST, _LONGEST = 0.5, 3.0  # times the length of the original


def rephrase_bench(bench: Bench, config: RephraseConfig) -> None:
    client = ChatClient(config.api)
    reasons: Counter[str] = Counter()

    def ask(question: str) -> str:
        message = {"role": "user", "content": _REQUEST.format(question=question)}
        return client.ask(client.body([message], config.max_tokens)).text

    items = [rephrased(item, ask, reasons) for item in track(bench.items, "rephrasing", len(bench.items), "questions")]
    client.close()
    with atomic_directory(config.out) as folder:
        shutil.copytree(bench.folder / IMAGES, folder / IMAGES)
        note = RephraseNote(config.api.title, dict(sorted(reasons.items())))
        write_bench(folder, items, replace(bench.manifest, rephrased=note))
    say(f"{reasons['taken']} of {len(items)} questions have a new wording → {Path(config.out)}")


def rephrased(item: Item, ask: Callable[[str], str], reasons: Counter[str]) -> Item:
    """The item in other words, or as it was, with the reason counted. Both wordings are stored."""
    original = item.question_original or item.question
    wording = _inside_tags(ask(original))
    reason = "nothing between the tags" if wording is None else refusal_of(original, wording, item)
    reasons[reason or "taken"] += 1
    if wording is None or reason is not None:
        return item
    return replace(item, question=wording, question_original=original)


def _inside_tags(reply: str) -> str | None:
    found = _FOUND.search(reply)
    text = " ".join(found[1].split()) if found else ""
    return text or None


def _colors(text: str) -> set[str]:
    return {color for color in COLORS if re.search(rf"\b{color}\b", text, re.IGNORECASE)}


def refusal_of(original: str, wording: str, item: Item) -> str | None:
    """Why a wording is not taken; None when it asks the same."""
    if sorted(re.findall(r"\d+", original)) != sorted(re.findall(r"\d+", wording)):
        return "numbers changed"
    if _colors(original) != _colors(wording):
        return "colors changed"
    name = comparable(load_vocabulary().name(item.entity)) if item.entity else ""
    if name and name in comparable(original) and name not in comparable(wording):
        return "the entity's name is gone"
    if not _SHORTEST <= len(wording) / max(len(original), 1) <= _LONGEST:
        return "length"
    for option_text in item.options:
        text = re.escape(comparable(option_text))
        if re.search(rf"(?<!\w){text}(?!\w)", comparable(wording)) and not re.search(text, comparable(original)):
            return "an option is named"
    return None
