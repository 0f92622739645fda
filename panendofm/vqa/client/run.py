"""Ask a model all questions of a bench: concurrent, resumable, never the same question twice."""

from __future__ import annotations

import contextlib
import datetime
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from panendofm.runtime.console import log_to, progress, say, warn
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory
from panendofm.runtime.locks import directory_lock
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.bench.items import Item
from panendofm.vqa.bench.keys import keyed
from panendofm.vqa.client.answers import (
    ANSWERS,
    Answer,
    Decoding,
    Prices,
    Run,
    Variant,
    cost_of,
    cut_torn_line,
    read_answers,
    read_run,
    write_run,
)
from panendofm.vqa.client.chat import ChatClient, Message, Reply
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.likelihood import answer_by_likelihood
from panendofm.vqa.client.prompts import PROMPT_VERSION, messages_of, request_checksum, variants_of
from panendofm.vqa.published_prompts import PROFILES, PUBLISHED
from panendofm.vqa.reply_kinds import CHOICE, kind_of

EXIT_UNANSWERED = 1
NO_LIKELIHOOD = "none"


class Model(Protocol):
    def body(self, messages: list[Message], max_tokens: int) -> Message: ...

    def ask(self, body: Message) -> Reply: ...

    def log_probabilities(self, messages: list[Message], continuations: Sequence[str]) -> list[float]: ...

    def close(self) -> None: ...


def ask_bench(bench: Bench, config: RunConfig) -> int:
    """Write answers to config.out; what is there is not asked again. The exit code says whether questions are left."""
    out = make_directory(config.out)
    with directory_lock(out), log_to(out / "log.txt"):
        wanted = list(requests_of(bench, config))
        cut_torn_line(out / ANSWERS)
        before = read_run(out)
        run = _describe(bench, config, before)
        if before is not None:
            _refuse_other_run(out, before, run)
        done = {(a.id, a.variant) for a in read_answers(out / ANSWERS) if a.error is None}
        missing = [(item, variant) for item, variant in wanted if (item.id, variant) not in done]
        say(f"{len(wanted)} requests, {len(wanted) - len(missing)} of them answered before")
        if missing:
            write_run(out, run)
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
        and (item.kind == CHOICE.name or ask.likelihood == NO_LIKELIHOOD)  # boxes and texts have no options to weigh
    ]
    if ask.limit is not None:
        chosen = {item.id for item in sorted(items, key=lambda item: keyed("limit", item.id))[: ask.limit]}
        items = [item for item in items if item.id in chosen]
    if not items:
        raise UserError("ask.tasks, ask.limit and ask.human_subset leave not one question; widen them.")
    _refuse_missing_words(bench, items, ask.prompt)
    for item in items:
        for variant in variants_of(item, ask):
            yield item, variant


def _refuse_missing_words(bench: Bench, items: Sequence[Item], prompt: str) -> None:
    if prompt not in PROFILES:
        return
    missing = [item for item in items if not (item.published if prompt == PUBLISHED else item.open_ended)]
    if missing:
        types = ", ".join(sorted({item.subtask for item in missing}))
        raise UserError(
            f"ask.prompt={prompt}: {bench.folder} has no such wording of {len(missing)} questions ({types}); build it "
            "anew, ask other ones with ask.tasks, or take another prompt."
        )


def _open_model(config: RunConfig) -> Model:
    if config.api.local:
        from panendofm.vqa.client.local import LocalModel  # torch and transformers are slow to import

        return LocalModel(config.api)
    return ChatClient(config.api)


def _ask_all(bench: Bench, config: RunConfig, model: Model, missing: list[tuple[Item, Variant]], out: Path) -> None:
    """Keep `concurrency` requests under way; lines are appended by this thread alone, as replies come."""
    failures = 0
    models: set[str] = set()
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
                        _note_model(out, answered_by)
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
    """The answer to one question, and the id of the model that gave it."""
    kind = kind_of(item)
    prompts = bench.manifest.published_prompts
    if variant.prompt in PROFILES and prompts is not None:
        item = replace(item, system=prompts.system)
    image = bench.image(item) if item.image and not variant.blind else None
    room = config.api.max_tokens or kind.max_tokens(variant.prompt)
    body = model.body(messages_of(item, variant, image, config.ask.system), room)
    if config.ask.likelihood != NO_LIKELIHOOD:
        chat = messages_of(item, variant, image, config.ask.system)
        return answer_by_likelihood(model, item, variant, chat, config.ask.likelihood, config.api.title), None
    usage: Counter[str] = Counter()
    for tries in range(config.ask.format_retries + 1):
        reply = model.ask(body)
        usage.update(reply.usage)
        answer = Answer(
            item.id,
            variant,
            config.api.title,
            reply.text,
            reply.finish_reason,
            dict(usage),
            round(reply.latency_seconds, 4),
            reply.attempts,
            reply.error,
            request_checksum(body),
            time_now(),
            tries,
        )
        if reply.error is not None or not kind.breaks_format(item, answer):
            break
    return answer, reply.model


def time_now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# ------------------------------------------------------------------------------------------ what the run was

_MUST_AGREE = ("likelihood", "bench_sha256", "endpoint", "model", "decoding", "prompt", "prompt_version", "system")


def _describe(bench: Bench, config: RunConfig, before: Run | None) -> Run:
    """Prices and waiting may change between two starts."""
    api = config.api
    address = urlsplit(api.url)
    endpoint = f"{address.scheme}://{address.hostname}{f':{address.port}' if address.port else ''}{address.path}"
    return Run(
        bench_sha256=bench.checksum,
        name=api.title,
        kind=api.kind,
        bench=bench.manifest.name,
        endpoint=endpoint if api.url else "local",
        model=Path(api.model if api.url else api.local).name,
        model_answered=before.model_answered if before is not None else [],
        decoding=Decoding(api.temperature, api.token_key, api.max_tokens),
        prompt=config.ask.prompt,
        prompt_version=PROMPT_VERSION,
        format_retries=config.ask.format_retries,
        likelihood=config.ask.likelihood,
        system=config.ask.system,
        box_convention=api.box_convention,
        prices_per_million=Prices(api.price_input, api.price_output),
        versions={"python": platform.python_version()},
    )


def _refuse_other_run(out: Path, before: Run, now: Run) -> None:
    for key in _MUST_AGREE:
        if getattr(before, key) != getattr(now, key):
            raise UserError(
                f"{out} holds answers of a run whose {key} was {getattr(before, key)}, not {getattr(now, key)}; "
                "choose another out."
            )


def _note_model(out: Path, name: str) -> None:
    """Note the id that the server answered with; services change what stands behind a name."""
    run = read_run(out)
    short = Path(name).name
    if run is not None and short not in run.model_answered:
        write_run(out, replace(run, model_answered=[*run.model_answered, short]))


def _summary(out: Path, config: RunConfig, wanted: int) -> int:
    answers = read_answers(out / ANSWERS)
    good = {(a.id, a.variant): a for a in answers if a.error is None}
    tokens = [sum(a.usage.get(name, 0) for a in good.values()) for name in ("prompt_tokens", "completion_tokens")]
    cost = cost_of(list(good.values()), Prices(config.api.price_input, config.api.price_output))
    price = "" if cost is None else f", cost {cost:.4f}"
    say(f"{len(good)} answers in {out / ANSWERS}; {tokens[0]} + {tokens[1]} tokens{price}")
    left = wanted - len(good) if len(good) < wanted else 0
    if left:
        warn(f"{left} requests got no answer; the same command asks them again.")
    return EXIT_UNANSWERED if left else 0
