"""One question over HTTP, with retries: anything that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from panendofm.runtime.errors import UserError
from panendofm.runtime.names import printable
from panendofm.vqa.client.completions import (
    BodyReader,
    UnreadableReplyError,
    error_words,
    read_completion,
    retry_after,
)
from panendofm.vqa.client.config import ApiConfig

Message = dict[str, Any]  # a chat, or a part of one, as such servers take it
_RETRIED = (408, 409, 425, 429)
_FATAL = (401, 403, 404)
_FILTERED = ("content_filter", "content_policy", "responsibleai", "safety")
_LONGEST_QUOTE = 300


@dataclass(frozen=True)
class Reply:
    """What came back. `error` is set when nothing did, in spite of all retries."""

    text: str = ""
    finish_reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    latency_seconds: float = 0.0
    attempts: int = 1
    error: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class _Response:
    status: int
    content: bytes
    retry_after: float | None


class ChatClient:
    """Sends chats to one endpoint; safe to use from several threads.

    Requests run on one event loop, because only there a time limit covers a request as a whole: name,
    connection, headers and body. Elsewhere a server that sends a byte now and then is never too late.
    """

    def __init__(self, config: ApiConfig) -> None:
        self._config = config
        self._key = config.key()
        self._url = _checked_url(config.url)
        headers = {"Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._http = httpx.AsyncClient(headers=headers, timeout=config.timeout_seconds)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="chat", daemon=True).start()
        self._answered = False  # until a first answer came, a refused request means wrong settings

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def body(self, messages: list[Message], max_tokens: int) -> Message:
        body: Message = {"model": self._config.model, "messages": messages, self._config.token_key: max_tokens}
        if self._config.temperature is not None:
            body["temperature"] = self._config.temperature
        return body

    def log_probabilities(self, messages: list[Message], continuations: Sequence[str]) -> list[float]:
        raise UserError("an endpoint gives no log-probabilities of options; use api.local.")

    def ask(self, body: Message) -> Reply:
        """The reply to one chat. Raises `UserError` when no other request would fare better."""
        began = time.monotonic()
        problem = ""
        for attempt in range(1, self._config.retries + 2):
            wait: float | None = None
            try:
                response = asyncio.run_coroutine_threadsafe(self._exchange(body), self._loop).result()
            except TimeoutError:
                problem = f"no whole reply within {self._config.timeout_seconds:g} seconds"
            except UnreadableReplyError as error:
                problem = str(error)
            except (httpx.HTTPError, OSError) as error:
                problem = f"{type(error).__name__}: {error}".rstrip(": ")
            else:
                if response.status == 200:
                    read = self._read(response, attempt, time.monotonic() - began)
                    if read is not None:
                        self._answered = True
                        return read
                    problem = "the server's answer is no chat completion"
                else:
                    # The key is taken out before the words are cut: half a key is too much.
                    problem = f"HTTP {response.status}: {self._clean(error_words(response.content))[:_LONGEST_QUOTE]}"
                    if _is_filtered(response):
                        return Reply("", "content_filter", {}, time.monotonic() - began, attempt)
                    self._stop_if_fatal(response.status, problem)
                    if 400 <= response.status < 500 and response.status not in _RETRIED:
                        break  # another try would get the same
                    wait = response.retry_after
            if attempt <= self._config.retries:
                time.sleep(self._wait(attempt, wait))
        error_text = printable(self._clean(problem))
        return Reply(latency_seconds=time.monotonic() - began, attempts=attempt, error=error_text)

    async def _exchange(self, body: Message) -> _Response:
        async with asyncio.timeout(self._config.timeout_seconds):
            async with self._http.stream("POST", self._url, content=json.dumps(body).encode()) as response:
                reader = BodyReader(response.headers)
                async for chunk in response.aiter_raw():
                    reader.add(chunk)
                wait = retry_after(response.headers.get("Retry-After"))
                return _Response(response.status_code, reader.content(), wait)

    def _wait(self, attempt: int, asked: float | None) -> float:
        backoff = self._config.backoff_seconds * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        return min(max(asked if asked is not None else backoff, 0.0), self._config.max_wait_seconds)

    def _read(self, response: _Response, attempt: int, seconds: float) -> Reply | None:
        found = read_completion(response.content)
        if found is None:
            return None
        finish = None if found.finish_reason is None else self._clean(found.finish_reason)
        model = None if found.model is None else self._clean(found.model)
        return Reply(self._clean(found.text), finish, found.usage, seconds, attempt, None, model)

    def _stop_if_fatal(self, status: int, problem: str) -> None:
        refused = 400 <= status < 500 and status not in _RETRIED
        if status in _FATAL or (refused and not self._answered):
            remedy = {401: "check api.key_env", 403: "check api.key_env", 404: "check api.url and api.model"}
            advice = remedy.get(status, "check api.model, api.token_key and api.temperature")
            raise UserError(f"the endpoint refuses the request ({printable(problem)}); {advice}.")

    def _clean(self, text: str) -> str:
        """Without the key, which some servers repeat."""
        return text.replace(self._key, "…") if self._key else text


def _checked_url(url: str) -> str:
    try:
        address = httpx.URL(url.rstrip("/") + "/chat/completions")
    except (httpx.InvalidURL, ValueError) as error:
        raise UserError(f"api.url: '{url}' is no address ({error}).") from error
    if address.scheme not in ("http", "https") or not address.host:
        raise UserError(f"api.url: '{url}' is no address; it begins with http:// or https:// and names a host.")
    return str(address)


def _is_filtered(response: _Response) -> bool:
    """An image or text that the service declines to look at."""
    words = response.content.decode(errors="replace").lower()
    return response.status == 400 and any(word in words for word in _FILTERED)
