"""One question over HTTP, with retries: anything that speaks OpenAI's chat completions."""

from __future__ import annotations

import email.utils
import random
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from panendofm.runtime.errors import UserError
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


class ChatClient:
    """Sends chats to one endpoint; safe to use from several threads."""

    def __init__(self, config: ApiConfig) -> None:
        self._config = config
        self._key = config.key()
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._http = httpx.Client(headers=headers, timeout=config.timeout_seconds)
        self._url = config.url.rstrip("/") + "/chat/completions"
        self._answered = False  # until a first answer came, a refused request means wrong settings

    def close(self) -> None:
        self._http.close()

    def body(self, messages: list[Message], max_tokens: int) -> Message:
        body: Message = {"model": self._config.model, "messages": messages, self._config.token_key: max_tokens}
        if self._config.temperature is not None:
            body["temperature"] = self._config.temperature
        return body

    def ask(self, body: Message) -> Reply:
        """The reply to one chat. Raises `UserError` when no other request would fare better."""
        began = time.monotonic()
        problem = ""
        for attempt in range(1, self._config.retries + 2):
            wait: float | None = None
            try:
                response = self._http.post(self._url, json=body)
            except (httpx.TimeoutException, httpx.TransportError) as error:
                problem = f"{type(error).__name__}: {error}".rstrip(": ")
            except (httpx.InvalidURL, ValueError) as error:
                raise UserError(f"api.url: '{self._clean(self._config.url)}' is no address ({error}).") from error
            else:
                if response.status_code == 200:
                    read = self._read(response, attempt, time.monotonic() - began)
                    if read is not None:
                        self._answered = True
                        return read
                    problem = "the server's answer is no chat completion"
                else:
                    problem = f"HTTP {response.status_code}: {self._words(response)}"
                    if self._is_filtered(response):
                        return Reply("", "content_filter", {}, time.monotonic() - began, attempt)
                    self._stop_if_fatal(response, problem)
                    if 400 <= response.status_code < 500 and response.status_code not in _RETRIED:
                        break  # another try would get the same
                    wait = _retry_after(response)
            if attempt <= self._config.retries:
                time.sleep(self._wait(attempt, wait))
        return Reply(latency_seconds=time.monotonic() - began, attempts=attempt, error=self._clean(problem))

    def _wait(self, attempt: int, asked: float | None) -> float:
        backoff = self._config.backoff_seconds * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        return min(max(asked if asked is not None else backoff, 0.0), self._config.max_wait_seconds)

    def _read(self, response: httpx.Response, attempt: int, seconds: float) -> Reply | None:
        try:
            content = response.json()
            choice = content["choices"][0]
            text = choice["message"].get("content") or ""
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            return None
        usage = {
            name: int(value)
            for name, value in (content.get("usage") or {}).items()
            if name in ("prompt_tokens", "completion_tokens", "total_tokens") and isinstance(value, int | float)
        }
        if isinstance(text, list):
            text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
        model = content.get("model")
        return Reply(
            self._clean(str(text)), choice.get("finish_reason"), usage, seconds, attempt, None,
            None if model is None else str(model),
        )  # fmt: skip

    def _is_filtered(self, response: httpx.Response) -> bool:
        """An image or text that the service declines to look at."""
        return response.status_code == 400 and any(word in response.text.lower() for word in _FILTERED)

    def _stop_if_fatal(self, response: httpx.Response, problem: str) -> None:
        status = response.status_code
        refused = 400 <= status < 500 and status not in _RETRIED
        if status in _FATAL or (refused and not self._answered):
            remedy = {401: "check api.key_env", 403: "check api.key_env", 404: "check api.url and api.model"}
            advice = remedy.get(status, "check api.model, api.token_key and api.temperature")
            raise UserError(f"the endpoint refuses the request ({self._clean(problem)}); {advice}.")

    def _words(self, response: httpx.Response) -> str:
        """The server's own words, on one line."""
        text = response.text
        try:
            error = response.json()
            error = error.get("error", error.get("detail", error)) if isinstance(error, dict) else error
            text = str(error.get("message", error)) if isinstance(error, dict) else str(error)
        except ValueError:
            pass
        return " ".join(text.split())[:_LONGEST_QUOTE]

    def _clean(self, text: str) -> str:
        """Without the key, which some servers repeat in their errors."""
        return text.replace(self._key, "…") if self._key else text


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks to wait: a number or a date."""
    value = response.headers.get("Retry-After")
    if value is None:
        return None
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except (TypeError, ValueError):
        return None
