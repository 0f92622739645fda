"""What an endpoint sends back, read without trust: every field may be missing, of another type, huge or malicious."""

from __future__ import annotations

import email.utils
import json
import math
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from panendofm.runtime.names import printable
from panendofm.vqa.client.answers import TOKEN_COUNTS

MOST_BYTES = 10_000_000  # of one reply, before and after decompression
_MOST_TOKENS = 10**12
_LONGEST_NAME = 200


class UnreadableReplyError(Exception):
    """The body can't be taken in; its words say why."""


@dataclass(frozen=True)
class Completion:
    """A chat completion; texts have no lone surrogates, names no control characters."""

    text: str
    finish_reason: str | None = None
    usage: dict[str, int] = field(default_factory=dict)
    model: str | None = None


class BodyReader:
    """Collects a body chunk by chunk and never holds more than `MOST_BYTES` of it."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        coding = headers.get("Content-Encoding", "identity").strip().lower()
        if coding not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise UnreadableReplyError(f"the reply has the unknown encoding {printable(coding[:40])}")
        self._unpack = zlib.decompressobj(47) if coding not in ("identity", "") else None  # 47: gzip or zlib
        self._content = bytearray()
        self._received = 0

    def add(self, chunk: bytes) -> None:
        self._received += len(chunk)
        if self._unpack is not None:
            try:
                chunk = self._unpack.decompress(chunk, MOST_BYTES + 1 - len(self._content))
            except zlib.error as error:
                raise UnreadableReplyError("the reply is damaged (its compression can't be undone)") from error
        self._content += chunk
        if max(self._received, len(self._content)) > MOST_BYTES:
            raise UnreadableReplyError(f"the reply is longer than {MOST_BYTES} bytes")

    def content(self) -> bytes:
        if self._unpack is not None and not self._unpack.eof:
            raise UnreadableReplyError("the reply is damaged (its compressed data end too early)")
        return bytes(self._content)


def read_completion(content: bytes) -> Completion | None:
    """The first choice of a chat completion, or None where there is none."""
    values = _values(content)
    choices = values.get("choices") if isinstance(values, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    text = message.get("content")
    if isinstance(text, list):
        parts = [part.get("text") for part in text if isinstance(part, dict)]
        text = "".join(part for part in parts if isinstance(part, str))
    if text is not None and not isinstance(text, str):
        return None
    return Completion(
        _storable(text or ""), _name(choice.get("finish_reason")), _usage(values), _name(values.get("model"))
    )


def error_words(content: bytes) -> str:
    """The server's own words about an error, on one line and uncut."""
    values = _values(content)
    if values is None:
        return " ".join(content.decode(errors="replace").split())
    error = values.get("error", values.get("detail", values)) if isinstance(values, dict) else values
    text = error.get("message", error) if isinstance(error, dict) else error
    try:
        return " ".join(_storable(str(text)).split())
    except RecursionError:
        return ""


def retry_after(value: str | None) -> float | None:
    """Seconds that the server asks to wait: a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) else None


def _values(content: bytes) -> Any:
    try:
        return json.loads(content.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _usage(values: dict[str, Any]) -> dict[str, int]:
    usage = values.get("usage")
    if not isinstance(usage, dict):
        return {}
    found: dict[str, Any] = {name: usage.get(name) for name in TOKEN_COUNTS}
    return {name: int(value) for name, value in found.items() if _is_count(value)}


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _MOST_TOKENS  # NaN is not


def _name(value: Any) -> str | None:
    return printable(value[:_LONGEST_NAME]) if isinstance(value, str) else None


def _storable(text: str) -> str:
    """Without lone surrogates, which no UTF-8 file can hold."""
    return text.encode(errors="replace").decode()
