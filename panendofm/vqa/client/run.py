"""Ask a model all questions of a bench: concurrent, resumable, never the same question twice."""

from __future__ import annotations

import contextlib
import datetime
import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from panendofm.runtime.console import log_to, progress, say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, read_json_object, write_json
from panendofm.runtime.locks import directory_lock
from panendofm.scoring.answers.choices import rotated
from panendofm.scoring.answers.localization import read_boxes
from panendofm.scoring.answers.replies import read_choice
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.client.answers import ANSWERS, RUN, Answer, cost_of, cut_torn_line, read_answers
from panendofm.vqa.client.chat import ChatClient, Reply
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.prompts import (
    MAX_TOKENS,
    PROMPT_VERSION,
    TEXT_MAX_TOKENS,
    Variant,
    messages_of,
    request_checksum,
    variants_of,
)

EXIT_UNANSWERED = 1


class Model(Protocol):
    def body(self, messages: list[dict[str, Any]], max_tokens: int) -> dict[str, Any]: ...

    def ask(self, body: dict[str, Any]) -> Reply: ...

    def close(self) -> None: ...


def ask_bench(bench: Bench, config: RunConfig) -> int:
    """Write answers to config.out; what is there is not asked again. The exit code says whether questions are left."""
    out = make_directory(config.out)
    with directory_lock(out), log_to(out / "log.txt"):
        wanted = list(requests_of(bench, config))
        cut_torn_line(out / ANSWERS)
        description = _describe(bench, config)
        _refuse_other_run(out / RUN, description)
        done = {(a.id, a.variant) for a in read_answers(out / ANSWERS) if a.error is None}
        missing = [(item, variant) for item, variant in wanted if (item.id, variant) not in done]
        say(f"{len(wanted)} requests, {len(wanted) - len(missing)} of them answered before")
        if missing:
            write_json(out / RUN, {**description, "model_answered": _known_models(out / RUN)})
            with contextlib.closing(_open_model(config)) as model:
                _ask_all(bench, config, model, missing, out)
        return _summary(out, config, len(wanted))


def requests_of(bench: Bench, config: RunConfig) -> Iterator[tuple[Item, Variant]]:
    """Every question in every variant, in the bench's order."""
    ask = config.ask
    items = [
        item
        for item in bench.items
        if (not ask.tasks or item.task in ask.tasks or item.subtask in ask.tasks)
        and (item.human or not ask.human_subset)
    ]
    if ask.limit is not None:
        chosen = {item.id for item in sorted(items, key=lambda item: keyed("limit", item.id))[: ask.limit]}
        items = [item for item in items if item.id in chosen]
    if not items:
        raise UserError("ask.tasks, ask.limit and ask.human_subset leave not one question; widen them.")
    for item in items:
        yield from (
            (item, variant)
            for variant in variants_of(
                item, ask.prompt, ask.rotations == "all", ask.blind, list(ask.perturbations), ask.repeats
            )
        )


def _open_model(config: RunConfig) -> Model:
    if config.api.local:
        from panendofm.vqa.client.local import LocalModel  # torch and transformers are slow to import

        return LocalModel(config.api)
    return ChatClient(config.api)


def _ask_all(bench: Bench, config: RunConfig, model: Model, missing: list[tuple[Item, Variant]], out: Path) -> None:
    """Keep `concurrency` requests under way; lines are appended by this thread alone, as replies come."""
    failures, models = 0, set[str]()
    with (
        (out / ANSWERS).open("a", encoding="utf-8") as stream,
        progress("asking", len(missing), "requests") as bar,
        ThreadPoolExecutor(config.api.concurrency, "ask") as pool,
    ):
        queue = iter(missing)
        # The first alone: when it shows that the settings are wrong, nothing else has been asked.
        ahead = 1
        under_way: set[Future[tuple[Answer, str | None]]] = set()
        try:
            while True:
                for item, variant in _take(queue, ahead - len(under_way)):
                    under_way.add(pool.submit(_ask_one, bench, config, model, item, variant))
                if not under_way:
                    break
                finished, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in finished:
                    answer, answered_by = future.result()
                    stream.write(answer.to_line())
                    stream.flush()
                    bar.advance()
                    failures = failures + 1 if answer.error else 0
                    if answered_by and answered_by not in models:
                        models.add(answered_by)
                        _add_model(out / RUN, answered_by)
                    if failures >= config.api.give_up_after:
                        raise UserError(
                            f"{failures} questions in a row got no answer (the last: {answer.error}); "
                            "when the endpoint works again, the same command goes on."
                        )
                ahead = config.api.concurrency
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _take(queue: Iterator[tuple[Item, Variant]], count: int) -> Iterable[tuple[Item, Variant]]:
    for _ in range(count):
        request = next(queue, None)
        if request is None:
            return
        yield request


def _ask_one(bench: Bench, config: RunConfig, model: Model, item: Item, variant: Variant) -> tuple[Answer, str | None]:
    picture = bench.picture(item) if item.image and not variant.blind else None
    room = config.api.max_tokens or (MAX_TOKENS[variant.prompt] if item.kind == "choice" else TEXT_MAX_TOKENS)
    body = model.body(messages_of(item, variant, picture, config.ask.system), room)
    reply, usage = model.ask(body), Counter[str]()
    tries = 0
    while True:
        usage.update(reply.usage)
        if tries == config.ask.format_retries or reply.error is not None or not breaks_format(item, variant, reply):
            break
        tries += 1
        reply = model.ask(body)
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    answer = Answer(
        item.id, variant, config.api.title, reply.text, reply.finish_reason, dict(usage),
        round(reply.latency_seconds, 4), reply.attempts, reply.error, request_checksum(body), now, tries,
    )  # fmt: skip
    return answer, reply.model


def breaks_format(item: Item, variant: Variant, reply: Reply) -> bool:
    """Whether a reply has not the form that was asked for; a refusal is no matter of form."""
    finished = reply.finish_reason != "length"
    if item.kind == "choice":
        options = rotated(item.options, variant.rotation)
        return read_choice(reply.text, options, finished).status in ("unparsed", "ambiguous", "invalid_option", "empty")
    if item.kind == "box":
        found = read_boxes(reply.text, (item.width, item.height), finished=finished)
        return found.status in ("unparsed", "invalid_box", "empty")
    return False


# ------------------------------------------------------------------------------------------ what the run was


def _describe(bench: Bench, config: RunConfig) -> dict[str, Any]:
    """run.json: what decides the replies, and nothing secret. Prices and waiting may change between two starts."""
    api = config.api
    address = urlsplit(api.url)
    endpoint = f"{address.scheme}://{address.hostname}{f':{address.port}' if address.port else ''}{address.path}"
    return {
        "name": api.title,
        "kind": api.kind,
        "bench": bench.manifest["name"],
        "bench_sha256": bench.checksum,
        "endpoint": endpoint if api.url else "local",
        "model": Path(api.model).name if api.url else Path(api.local).name,
        "decoding": {"temperature": api.temperature, "token_key": api.token_key, "max_tokens": api.max_tokens},
        "prompt": config.ask.prompt,
        "prompt_version": PROMPT_VERSION,
        "format_retries": config.ask.format_retries,
        "system": config.ask.system,
        "box_convention": api.box_convention,
        "prices_per_million": {"input": api.price_input, "output": api.price_output},
        "versions": {"python": platform.python_version()},
    }


_MUST_AGREE = ("bench_sha256", "endpoint", "model", "decoding", "prompt", "prompt_version", "system")


def _refuse_other_run(path: Path, description: dict[str, Any]) -> None:
    if not path.is_file():
        return
    before = read_json_object(path)
    for key in _MUST_AGREE:
        if before.get(key) != description[key]:
            raise UserError(
                f"{path.parent} holds answers of a run whose {key} was {before.get(key)}, not {description[key]}; "
                "choose another out."
            )


def _known_models(path: Path) -> list[str]:
    return list(read_json_object(path).get("model_answered", [])) if path.is_file() else []


def _add_model(path: Path, name: str) -> None:
    """Note the id that the server answered with; services change what stands behind a name."""
    run = read_json_object(path)
    short = Path(name).name
    if short not in run["model_answered"]:
        write_json(path, {**run, "model_answered": [*run["model_answered"], short]})


def _summary(out: Path, config: RunConfig, wanted: int) -> int:
    answers = read_answers(out / ANSWERS)
    good = {(a.id, a.variant): a for a in answers if a.error is None}
    tokens = [sum(a.usage.get(name, 0) for a in good.values()) for name in ("prompt_tokens", "completion_tokens")]
    cost = cost_of(list(good.values()), config.api.price_input, config.api.price_output)
    price = "" if cost is None else f", cost {cost:.4f}"
    say(f"{len(good)} answers in {out / ANSWERS}; {tokens[0]} + {tokens[1]} tokens{price}")
    left = wanted - len(good) if len(good) < wanted else 0
    if left:
        warn(f"{left} requests got no answer; the same command asks them again.")
    return EXIT_UNANSWERED if left else 0
