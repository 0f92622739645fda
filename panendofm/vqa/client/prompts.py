"""What is sent for a question: text, picture, and the variants that test what an answer hangs on."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.choices import rotated
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.images.draw import draw_marks, encode_jpeg, encode_png
from panendofm.vqa.bench.items import Item, MarkedRegion
from panendofm.vqa.client.config import BOXED, ORIGINAL_WORDING

PROMPT_VERSION = 1
Image = NDArray[np.uint8]

_ENDINGS = {
    "direct": "Choose the right answer from the options above.",
    "letter": "Choose the right answer from the options above. Reply with its letter alone.",
    "cot": (
        "Think step by step about what the picture shows, then choose the right answer from the options above. "
        "End with one line of the form «Answer: X», X being the letter."
    ),
}
# Room for the reply. Free texts are one or two sentences.
MAX_TOKENS = {"letter": 16, "direct": 1024, "cot": 1024}
TEXT_MAX_TOKENS = 256


@dataclass(frozen=True, order=True)
class Variant:
    """How a question is asked."""

    rotation: int = 0
    blind: bool = False
    prompt: str = "direct"
    perturb: str | None = None
    repeat: int = 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Variant:
        return cls(**{name: values[name] for name in cls.__dataclass_fields__ if name in values})

    @property
    def plain(self) -> bool:
        """Whether it is the question as the bench states it."""
        return not (self.rotation or self.blind or self.perturb or self.repeat)


def variants_of(
    item: Item, prompt: str, rotate: bool, blind: bool, perturbations: list[str], repeats: int
) -> Iterator[Variant]:
    """The plain question first."""
    yield Variant(prompt=prompt)
    if item.kind == "choice" and rotate:
        yield from (Variant(rotation=r, prompt=prompt) for r in range(1, len(item.options)))
    if blind:
        yield Variant(blind=True, prompt=prompt)
    yield from (Variant(prompt=prompt, perturb=name) for name in perturbations if _applies(name, item))
    yield from (Variant(prompt=prompt, repeat=number) for number in range(1, repeats))


def question_text(item: Item, variant: Variant) -> str:
    question = item.question_original if variant.perturb == ORIGINAL_WORDING else item.question
    if item.kind != "choice":
        return question
    options = rotated(item.options, variant.rotation)
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    return "\n".join([question, *lines, _ENDINGS[variant.prompt]])


def messages_of(item: Item, variant: Variant, picture: bytes | None, system: str) -> list[dict[str, Any]]:
    """The chat as OpenAI-compatible servers take it; the picture comes before the text."""
    content: list[dict[str, Any]] = []
    if picture is not None and not variant.blind:
        kind, content_bytes = _kind_of(picture), picture
        if variant.perturb is not None and variant.perturb != ORIGINAL_WORDING:
            kind, content_bytes = "png", perturbed(picture, variant.perturb, item)
            if variant.perturb.startswith("jpeg"):
                kind = "jpeg"
        url = f"data:image/{kind};base64,{base64.b64encode(content_bytes).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    content.append({"type": "text", "text": question_text(item, variant)})
    first = [{"role": "system", "content": text}] if (text := item.system or system) else []
    return [*first, {"role": "user", "content": content}]


def _kind_of(picture: bytes) -> str:
    return "png" if picture.startswith(b"\x89PNG") else "jpeg"


def request_checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------------------------------ perturbations


def _jpeg(image: Image) -> bytes:
    return encode_jpeg(image, 20)


def _brighter(factor: float) -> Callable[[Image], bytes]:
    return lambda image: encode_png(np.clip(image * factor, 0, 255).astype(np.uint8))


_PERTURBATIONS: dict[str, Callable[[Image], bytes]] = {
    "jpeg20": _jpeg,
    "blur2": lambda image: encode_png(np.asarray(cv2.GaussianBlur(image, (0, 0), 2.0), np.uint8)),
    "dark": _brighter(0.5),
    "bright": _brighter(1.5),
    "half": lambda image: encode_png(
        np.asarray(cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
    ),
}


def _applies(name: str, item: Item) -> bool:
    if name == BOXED:
        return bool(item.regions) and not any(region.color for region in item.regions)
    if name == ORIGINAL_WORDING:
        return item.question_original not in ("", item.question)
    # Half the size would move the coordinates that the question speaks of.
    return not (name == "half" and item.prompt_kind == "coordinate")


def perturbed(picture: bytes, name: str, item: Item) -> bytes:
    decoded = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    if decoded is None:
        raise UserError(f"the picture {item.image} can't be decoded; copy the bench anew.")
    image = np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)
    if name == BOXED:
        marks = [MarkedRegion(r.name, "green", r.box, target=r.target) for r in item.regions if r.target]
        return encode_png(draw_marks(image, marks))
    return _PERTURBATIONS[name](image)
