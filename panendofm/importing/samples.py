"""What a sample of others is: an encoded image, and the little that may be known of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import simplejpeg

from panendofm.imaging.images import decode_image

_JPEG = b"\xff\xd8\xff"
_QUALITY = 95


class Sample(NamedTuple):
    name: str  # what an error calls it
    image: bytes  # as it came
    video: str | None = None
    corpus: str | None = None


@dataclass(frozen=True)
class Facts:
    """Fields of a sample's JSON file that order and balance the training."""

    video: str | None = None
    corpus: str | None = None


class Source(Protocol):
    """Samples in an order that is always the same."""

    name: str

    def count(self) -> int: ...

    def samples(self) -> Iterator[Sample]: ...

    def facts(self) -> list[str]:
        """What tells this source from others and from itself after a change: names, sizes and times of its files."""
        ...


def facts_of(record: Any) -> Facts:
    """Of a parsed JSON file; whatever else stands in it is passed over."""
    if not isinstance(record, dict):
        return Facts()
    video, corpus = record.get("video"), record.get("corpus")
    return Facts(
        video=str(video) if isinstance(video, str | int) else None,
        corpus=corpus if isinstance(corpus, str) and corpus else None,
    )


def is_jpeg(head: bytes) -> bool:
    return head.startswith(_JPEG)


def as_jpeg(image: bytes, name: str) -> bytes:
    """JPEG stays as it is; anything else is encoded, because training reads JPEG alone."""
    if is_jpeg(image):
        return image
    encoded: bytes = simplejpeg.encode_jpeg(decode_image(image, name), _QUALITY, "RGB", "444")
    return encoded
