"""A language model as rater: it sees question, reply, reference and rubric, and not who wrote the reply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from panendofm.runtime.console import say, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json_lines, safe_name
from panendofm.vqa.bench.items import Bench
from panendofm.vqa.bench.questions.vocabulary import read_package_yaml
from panendofm.vqa.client.answers import AnswerSet, cut_torn_line
from panendofm.vqa.client.chat import ChatClient, Reply
from panendofm.vqa.judge.config import JudgeConfig
from panendofm.vqa.people.ratings import DIMENSIONS, Text, check_values, texts_to_rate

_TRIES = 3


def judge_texts(
    bench: Bench,
    sets: Sequence[AnswerSet],
    config: JudgeConfig,
    allow_self: bool = False,
    no_reference: bool = False,
    human_only: bool = False,
    blind: bool = False,
) -> None:
    """Rate every free text that has no rating of this judge yet."""
    judge = config.api.title
    own = [one.name for one in sets if judge in (one.name, one.run.get("model"))]
    own += [one.name for one in sets if judge in one.run.get("model_answered", ()) and one.name not in own]
    if own and not allow_self:
        raise UserError(
            f"{judge} is a contestant ({own[0]}) and can't judge itself; name another, or use --allow-self."
        )
    texts = texts_to_rate(bench, sets, human_only, blind)
    if not texts:
        raise UserError("these answers hold no free text to rate.")
    missing = [text for text in texts if not text.item.reference]
    if missing and not no_reference:
        raise UserError(f"{len(missing)} texts have no reference; rate them with --no-reference, without accuracy.")
    out = make_directory(config.ratings) / f"judge-{safe_name(judge)}.jsonl"
    cut_torn_line(out)
    done = {line["answer"] for line in read_json_lines(out) if not line.get("failed")} if out.is_file() else set()
    client = ChatClient(config.api)
    failed = 0
    with out.open("a", encoding="utf-8") as stream:
        todo = [text for text in texts if text.key not in done]
        for text in track(todo, "judging", len(todo), "texts"):
            row = rate_text(text, lambda body: client.ask(body), client.body, config, no_reference)
            row = {"answer": text.key, "rater": f"judge:{judge}", **row, "allow_self": bool(own)}
            failed += bool(row.get("failed"))
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            stream.flush()
    client.close()
    if failed:
        warn(f"{failed} texts got no readable rating in {_TRIES} tries; they count as not rated.")
    say(f"{len(todo) - failed} texts rated by {judge} → {out}" + ("; the judge is a contestant" if own else ""))


def rate_text(
    text: Text,
    ask: Callable[[dict[str, Any]], Reply],
    body_of: Callable[[list[dict[str, Any]], int], dict[str, Any]],
    config: JudgeConfig,
    no_reference: bool,
) -> dict[str, Any]:
    """The five ratings of one text, or what went wrong."""
    prompt = judge_prompt(text, no_reference)
    checksum = hashlib.sha256(prompt.encode()).hexdigest()[:16]
    usage: dict[str, int] = {}
    problem = ""
    for _ in range(_TRIES):
        reply = ask(body_of([{"role": "user", "content": prompt}], config.max_tokens))
        for name, count in reply.usage.items():
            usage[name] = usage.get(name, 0) + count
        try:
            values = read_rating(reply.text if reply.error is None else "", no_reference)
        except UserError as error:
            problem = reply.error or str(error)
            continue
        return {**values, "prompt_sha256": checksum, "usage": usage, "characters": len(text.reply)}
    nothing = dict.fromkeys(DIMENSIONS)
    return {**nothing, "failed": problem, "prompt_sha256": checksum, "usage": usage, "characters": len(text.reply)}


def judge_prompt(text: Text, no_reference: bool) -> str:
    rubric = read_package_yaml("judge", "rubric.yaml")["dimensions"]
    lines = [
        f"- {name} ({d['title']}): 1 = {d[1]}; 3 = {d[3]}; 5 = {d[5]}"
        for name, d in rubric.items()
        if not (no_reference and name == "accuracy")
    ]
    reference = "" if no_reference else f"\n\nReference, written by an expert:\n{text.item.reference}"
    names = ", ".join(f'"{n}"' for n in DIMENSIONS if not (no_reference and n == "accuracy"))
    return (
        "Rate a text about an endoscopic picture. Each dimension gets a whole number from 1 to 5:\n"
        + "\n".join(lines)
        + f"\n\nThe question was:\n{text.item.question}{reference}\n\nText to rate:\n{text.reply}\n\n"
        f"Reply with one JSON object with the keys {names}, and nothing else."
    )


def read_rating(reply: str, no_reference: bool = False) -> dict[str, int | None]:
    """The numbers in a judge's reply, fenced or not; anything else is refused."""
    start = reply.find("{")
    if start < 0:
        raise UserError("the judge's reply holds no JSON object.")
    try:
        values, _ = json.JSONDecoder().raw_decode(reply[start:])
    except json.JSONDecodeError as error:
        raise UserError("the judge's reply holds no valid JSON.") from error
    if isinstance(values, dict):
        values = {**values, "accuracy": None} if no_reference else values
        if any(values.get(name) is None and not (no_reference and name == "accuracy") for name in DIMENSIONS):
            raise UserError("the judge's reply lacks a dimension.")
    return check_values(values, "the judge's reply")
