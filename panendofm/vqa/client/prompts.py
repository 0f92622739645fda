"""What is sent for a question: text, image, and the variants that test what an answer hangs on."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.images import UnreadableImageError, decode_image
from panendofm.runtime.errors import UserError
from panendofm.scoring.answers.choices import rotated
from panendofm.vqa.bench.images.draw import SINGLE, draw_marks, encode_jpeg, encode_png
from panendofm.vqa.bench.items import Item, MarkedRegion
from panendofm.vqa.client.answers import Variant
from panendofm.vqa.client.chat import Message
from panendofm.vqa.client.config import BOXED, ORIGINAL_WORDING, AskConfig
from panendofm.vqa.published_prompts import PROFILES, PUBLISHED, with_options
from panendofm.vqa.reply_kinds import kind_of

PROMPT_VERSION = 1
Image = NDArray[np.uint8]


def variants_of(item: Item, ask: AskConfig) -> Iterator[Variant]:
    """The plain question first."""
    yield Variant(prompt=ask.prompt)
    if ask.rotations == "all" and kind_of(item).rotates:
        yield from (Variant(rotation=r, prompt=ask.prompt) for r in range(1, len(item.options)))
    if ask.blind:
        yield Variant(blind=True, prompt=ask.prompt)
    yield from (Variant(prompt=ask.prompt, perturb=name) for name in ask.perturbations if _applies(name, item))
    yield from (Variant(prompt=ask.prompt, repeat=number) for number in range(1, ask.repeats))


def question_text(item: Item, variant: Variant) -> str:
    if variant.prompt in PROFILES:
        text = item.published if variant.prompt == PUBLISHED else item.open_ended
        return with_options(text, rotated(item.options, variant.rotation))
    question = item.question_original if variant.perturb == ORIGINAL_WORDING else item.question
    return kind_of(item).prompt(item, question, variant)


def messages_of(item: Item, variant: Variant, image: bytes | None, system: str) -> list[Message]:
    """The chat; the image comes before the text."""
    content: list[Message] = []
    if image is not None and not variant.blind:
        if variant.perturb is not None and variant.perturb != ORIGINAL_WORDING:
            image = perturbed(image, variant.perturb, item)
        media = "png" if image.startswith(b"\x89PNG") else "jpeg"
        url = f"data:image/{media};base64,{base64.b64encode(image).decode()}"
        content.append({"type": "image_url", "image_url": {"url": url}})
    content.append({"type": "text", "text": question_text(item, variant)})
    first = [{"role": "system", "content": text}] if (text := item.system or system) else []
    return [*first, {"role": "user", "content": content}]


def request_checksum(body: Message) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------------------------------ perturbations


def _brighter(factor: float) -> Callable[[Image], bytes]:
    return lambda image: encode_png(np.clip(image * factor, 0, 255).astype(np.uint8))


def _blurred(image: Image) -> bytes:
    return encode_png(np.asarray(cv2.GaussianBlur(image, (0, 0), 2.0), np.uint8))


def _halved(image: Image) -> bytes:
    smaller = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    return encode_png(np.asarray(smaller, np.uint8))


_PERTURBATIONS: dict[str, Callable[[Image], bytes]] = {
    "jpeg20": lambda image: encode_jpeg(image, 20),
    "blur2": _blurred,
    "dark": _brighter(0.5),
    "bright": _brighter(1.5),
    "half": _halved,
}


def _applies(name: str, item: Item) -> bool:
    if name == BOXED:
        return bool(item.regions) and not any(region.color for region in item.regions)
    if name == ORIGINAL_WORDING:
        return item.question_original not in ("", item.question)
    # Half the size would move the coordinates that the question speaks of.
    return not (name == "half" and item.prompt_kind == "coordinate")


def perturbed(content: bytes, name: str, item: Item) -> bytes:
    try:
        image = decode_image(content, item.image)
    except UnreadableImageError as error:
        raise UserError(f"the image {item.image} can't be decoded; copy the bench anew.") from error
    if name == BOXED:
        marks = [MarkedRegion(r.name, SINGLE, r.box, target=True) for r in item.targets]
        return encode_png(draw_marks(image, marks))
    return _PERTURBATIONS[name](image)
