"""Choose options by what a local model finds likely, instead of reading what it writes.

Every option is put after the prompt, as its letter or as its text, and its log-probability is the mean over its tokens:
so a long text is not worse for being long.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from panendofm.scoring.answers.choices import rotated
from panendofm.scoring.answers.replies import LETTERS
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.client.chat import Message

LETTERS_MODE, TEXTS_MODE = "letters", "texts"


class Scorer(Protocol):
    def log_probabilities(self, messages: list[Message], continuations: Sequence[str]) -> list[float]:
        """Mean log-probability per token of each continuation of the chat."""


def answer_by_likelihood(
    model: Scorer, item: Item, variant: Variant, messages: list[Message], mode: str, name: str
) -> Answer:
    """The letter of the likeliest option as it was shown, with the log-probability of each."""
    began = time.monotonic()
    shown = rotated(item.options, variant.rotation)
    letters = list(LETTERS[: len(shown)])
    found = model.log_probabilities(messages, letters if mode == LETTERS_MODE else shown)
    best = letters[max(range(len(found)), key=lambda number: found[number])]
    return Answer(
        item.id,
        variant,
        name,
        best,
        "stop",
        latency_s=round(time.monotonic() - began, 4),
        log_probabilities=found,
    )
