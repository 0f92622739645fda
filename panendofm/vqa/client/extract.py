"""Let a model read replies to multiple-choice questions that the strict parser can't read.

It sees question, options and reply, and never the right answer: a judge that knows it tends to find it. Its letters
stand in a file of their own, and scores are shown beside the strict ones.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from panendofm.records.documents import as_document
from panendofm.runtime.console import say, track
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import (
    EXTRACTED,
    Answer,
    ExtractedLine,
    cut_torn_line,
    read_answer_set,
    read_extracted,
)
from panendofm.vqa.client.chat import ChatClient
from panendofm.vqa.client.config import ExtractConfig
from panendofm.vqa.reply_kinds import CHOICE, Parser

NOTHING = "Z"
# Refusals and cut-off replies hold no choice that could be found.
_READ_AGAIN = ("ambiguous", "unparsed", "invalid_option")
_REQUEST = (
    "Someone was asked a question with options and replied in words of their own. Which option does the reply choose? "
    "Judge by the reply alone; do not answer the question yourself.\n\nQuestion: {question}\n{options}\n\n"
    "Reply: {reply}\n\nAnswer with the letter of that option alone, or with Z when the reply chooses none or several."
)


def extract_answers(bench: Bench, folder: Path, config: ExtractConfig) -> None:
    """Write extracted.jsonl beside the answers; what is there is not asked again."""
    answers = read_answer_set(folder, bench, allow_partial=True)
    if config.api.title in (answers.name, answers.run.model) and not config.allow_self:
        raise UserError(f"{config.api.title} wrote these replies; let another model read them, or set allow_self=true.")
    place = (folder if folder.is_dir() else folder.parent) / EXTRACTED
    cut_torn_line(place)
    known = read_extracted(place.parent, bench)
    if known.by and known.by != config.api.title:
        raise UserError(f"{place} was made by {known.by}; remove it, or let the same model go on.")
    todo = [
        (bench.by_id[id_], answer)
        for (id_, variant), answer in answers.answers.items()
        if variant.plain and id_ not in known.letters and _is_unreadable(bench.by_id[id_], answer)
    ]
    client = ChatClient(config.api)
    found = failed = 0
    with place.open("a", encoding="utf-8") as stream:
        for item, answer in track(todo, "extracting", len(todo), "replies"):
            prompt = extraction_prompt(item, answer)
            reply = client.ask(client.body([{"role": "user", "content": prompt}], config.max_tokens))
            if reply.error is not None:
                failed += 1  # asked again by the next run
                continue
            letter = read_letter(reply.text, item)
            found += letter is not None
            line = ExtractedLine(item.id, config.api.title, letter, reply.text)
            stream.write(json.dumps(as_document(line), ensure_ascii=False) + "\n")
            stream.flush()
    client.close()
    left = f"; {failed} got no answer, the same command asks them again" if failed else ""
    say(f"{found} of {len(todo)} unreadable replies have a letter by {config.api.title} → {place}{left}")


def _is_unreadable(item: Item, answer: Answer) -> bool:
    return item.kind == CHOICE.name and CHOICE.read(item, answer, Parser()).status in _READ_AGAIN


def extraction_prompt(item: Item, answer: Answer) -> str:
    options = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, item.options, strict=False))
    return _REQUEST.format(question=item.question, options=options, reply=answer.response)


def read_letter(reply: str, item: Item) -> str | None:
    """One letter and nothing else, else none: what reads loosely would have to be read itself."""
    found = re.fullmatch(r"\W*([A-Z])\W*", reply.strip())
    letter = found[1] if found else NOTHING
    return letter if letter in LETTERS[: len(item.options)] else None
