"""A language model as rater: it sees question, reply, reference and rubric, and not who wrote the reply."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence

from panendofm.runtime.console import say, track, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, safe_name
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import AnswerSet
from panendofm.vqa.client.chat import ChatClient, Reply
from panendofm.vqa.people.config import JudgeConfig
from panendofm.vqa.people.ratings import Rating, RatingFile, Text, texts_to_rate
from panendofm.vqa.people.rubric import Rubric, Values

_TRIES = 3


def judge_texts(bench: Bench, rubric: Rubric, sets: Sequence[AnswerSet], config: JudgeConfig) -> None:
    """Rate every free text that has no rating of this judge yet."""
    judge = config.api.title
    own = [one.name for one in sets if judge in (one.name, one.run.model, *one.run.model_answered)]
    if own and not config.allow_self:
        raise UserError(
            f"{judge} is a contestant ({own[0]}) and can't judge itself; name another, or set allow_self=true."
        )
    texts = texts_to_rate(bench, sets, config.human_subset, config.blind)
    missing = [text for text in texts if not text.item.reference]
    if missing and not config.no_reference:
        raise UserError(f"{len(missing)} texts have no reference; rate them with no_reference=true, without accuracy.")
    asked = rubric.without_reference() if config.no_reference else rubric
    file = RatingFile(make_directory(config.ratings) / f"judge-{safe_name(judge)}.jsonl", rubric)
    todo = [text for text in texts if text.key not in file.rated]
    client = ChatClient(config.api)
    failed = 0

    def ask(prompt: str) -> Reply:
        return client.ask(client.body([{"role": "user", "content": prompt}], config.max_tokens))

    for text in track(todo, "judging", len(todo), "texts"):
        prompt = judge_prompt(text, asked, with_reference=not config.no_reference)
        values, problem, usage = _rate(prompt, asked, ask)
        failed += bool(problem)
        file.append(
            Rating(
                text.key,
                f"judge:{judge}",
                {name: values.get(name) for name in rubric.names},
                bool(own),
                failed=problem,
                prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest()[:16],
                usage=usage,
                characters=len(text.reply),
            )
        )
    client.close()
    if failed:
        warn(f"{failed} texts got no readable rating in {_TRIES} tries; they count as not rated.")
    note = "; the judge is a contestant" if own else ""
    say(f"{len(todo) - failed} texts rated by {judge} → {file.path}{note}")


def _rate(prompt: str, rubric: Rubric, ask: Callable[[str], Reply]) -> tuple[Values, str, dict[str, int]]:
    """The ratings of one text, what went wrong if there are none, and the tokens that it took."""
    usage: Counter[str] = Counter()
    problem = ""
    for _ in range(_TRIES):
        reply = ask(prompt)
        usage.update(reply.usage)
        try:
            return read_rating(reply.text if reply.error is None else "", rubric), "", dict(usage)
        except UserError as error:
            problem = reply.error or str(error)
    return {}, problem, dict(usage)


def judge_prompt(text: Text, rubric: Rubric, with_reference: bool = True) -> str:
    lines = []
    for dimension in rubric.dimensions:
        low, middle, high = dimension.anchors
        one, three, five = rubric.anchored
        lines.append(f"- {dimension.name} ({dimension.title}): {one} = {low}; {three} = {middle}; {five} = {high}")
    reference = f"\n\nReference, written by an expert:\n{text.item.reference}" if with_reference else ""
    names = ", ".join(f'"{name}"' for name in rubric.names)
    return (
        "Rate a text about an endoscopic picture. "
        f"Each dimension gets a whole number from {rubric.low} to {rubric.high}:\n"
        + "\n".join(lines)
        + f"\n\nThe question was:\n{text.item.question}{reference}\n\nText to rate:\n{text.reply}\n\n"
        f"Reply with one JSON object with the keys {names}, and nothing else."
    )


def read_rating(reply: str, rubric: Rubric) -> Values:
    """The numbers in a judge's reply, fenced or not; anything else is refused."""
    start = reply.find("{")
    if start < 0:
        raise UserError("the judge's reply holds no JSON object.")
    try:
        values, _ = json.JSONDecoder().raw_decode(reply[start:])
    except json.JSONDecodeError as error:
        raise UserError("the judge's reply holds no valid JSON.") from error
    if isinstance(values, dict) and any(values.get(name) is None for name in rubric.names):
        raise UserError("the judge's reply lacks a dimension.")
    return rubric.check(values, "the judge's reply")
