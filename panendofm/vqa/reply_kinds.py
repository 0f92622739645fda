"""The kinds of reply that a question may ask for: a choice, a box, a text.

A kind says how such a question is put to a model, what a reply means, and what it is worth. Everything that depends
on the form of a reply stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panendofm.scoring.answers.box_replies import BOX_STATUSES, Box, read_boxes
from panendofm.scoring.answers.choices import letter_before_rotation, rotated
from panendofm.scoring.answers.localization import iou_with_truth
from panendofm.scoring.answers.replies import LETTERS, STATUSES, read_choice, read_first_letter
from panendofm.vqa.bench.items import Item
from panendofm.vqa.client.answers import Answer, Variant
from panendofm.vqa.published_prompts import OPEN

FIRST_LETTER = "first_letter"
_TEXT_TOKENS = 256  # one or two sentences, or four numbers
_CHOICE_TOKENS = {"letter": 16}
_MOST_CHOICE_TOKENS = 1024
_ENDINGS = {
    "direct": "Choose the right answer from the options above.",
    "letter": "Choose the right answer from the options above. Reply with its letter alone.",
    "cot": (
        "Think step by step about what the picture shows, then choose the right answer from the options above. "
        "End with one line of the form «Answer: X», X being the letter."
    ),
}


@dataclass(frozen=True)
class Reading:
    """What was made of one reply, and what that is worth: right (1) or wrong (0), or an overlap; texts are rated."""

    status: str
    value: float | None = 0.0
    replied: str | None = None  # letter, as the options were shown
    chosen: str | None = None  # letter, in the bench's own order
    rule: str = ""  # of the parser that decided
    boxes: tuple[Box, ...] = ()
    text: str = ""  # the reply
    log_probabilities: tuple[float, ...] = ()  # of the options, in the bench's own order

    @property
    def right(self) -> bool:
        return self.value == 1.0


NO_ANSWER = Reading("error", rule="no_answer")


@dataclass(frozen=True)
class Parser:
    """How replies are read."""

    mode: str = "cascade"
    box_convention: str = "pixel"


class ReplyKind:
    """What all kinds have in common; a text needs nothing more."""

    name = "text"
    statuses: Sequence[str] = ()  # how a reply may be read; empty: any text is a reply
    retried: Sequence[str] = ()  # statuses of replies that have not the form that was asked for
    rotates = False  # whether there are options to rotate
    rated = True  # whether people or a judge say what a reply is worth

    def prompt(self, item: Item, question: str, variant: Variant) -> str:
        return question

    def max_tokens(self, prompt: str) -> int:
        return _MOST_CHOICE_TOKENS if prompt == OPEN else _TEXT_TOKENS

    def read(self, item: Item, answer: Answer | None, parser: Parser) -> Reading:
        """No answer, and one that failed, is worth nothing."""
        if answer is None or answer.error is not None:
            return NO_ANSWER
        if answer.finish_reason == "content_filter" and not answer.response.strip():
            return Reading("refused", rule="content_filter")
        return self.parse(item, answer, parser)

    def parse(self, item: Item, answer: Answer, parser: Parser) -> Reading:
        return Reading("ok" if answer.response.strip() else "empty", None, text=answer.response)

    def breaks_format(self, item: Item, answer: Answer) -> bool:
        """Whether a reply has not the form that was asked for; a refusal is no matter of form."""
        return self.parse(item, answer, Parser()).status in self.retried

    def accepts(self, item: Item, response: str) -> bool:
        """Whether a person may answer so."""
        return True

    def truth(self, item: Item) -> str:
        """The right reply."""
        return item.reference

    def wrong(self, item: Item, random: np.random.Generator) -> str:
        """A made-up reply that is wrong."""
        return item.reference


class ChoiceKind(ReplyKind):
    name = "choice"
    statuses = STATUSES
    retried = ("unparsed", "ambiguous", "invalid_option", "empty")
    rotates = True
    rated = False

    def prompt(self, item: Item, question: str, variant: Variant) -> str:
        options = rotated(item.options, variant.rotation)
        lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
        return "\n".join([question, *lines, _ENDINGS[variant.prompt]])

    def max_tokens(self, prompt: str) -> int:
        return _CHOICE_TOKENS.get(prompt, _MOST_CHOICE_TOKENS)

    def parse(self, item: Item, answer: Answer, parser: Parser) -> Reading:
        rotation = answer.variant.rotation
        options = rotated(item.options, rotation)
        if parser.mode == FIRST_LETTER:
            choice = read_first_letter(answer.response, options)
        else:
            choice = read_choice(answer.response, options, finished=answer.finish_reason != "length")
        if choice.letter is None:
            return Reading(choice.status, rule=choice.rule, text=answer.response)
        chosen = letter_before_rotation(choice.letter, rotation, len(options))
        value = float(chosen == item.answer)
        weights: tuple[float, ...] = ()
        if len(answer.log_probabilities) == len(options):
            back = len(options) - rotation
            weights = tuple(rotated(answer.log_probabilities, back % len(options)))
        return Reading(
            choice.status, value, choice.letter, chosen, choice.rule, text=answer.response, log_probabilities=weights
        )

    def accepts(self, item: Item, response: str) -> bool:
        return response in LETTERS[: len(item.options)]

    def truth(self, item: Item) -> str:
        return item.answer

    def wrong(self, item: Item, random: np.random.Generator) -> str:
        return str(random.choice([letter for letter in LETTERS[: len(item.options)] if letter != item.answer]))


class BoxKind(ReplyKind):
    name = "box"
    statuses = BOX_STATUSES
    retried = ("unparsed", "invalid_box", "empty")
    rated = False

    def parse(self, item: Item, answer: Answer, parser: Parser) -> Reading:
        size = (item.width, item.height)
        found = read_boxes(answer.response, size, parser.box_convention, answer.finish_reason != "length")
        overlap = iou_with_truth(item.target_boxes, found.boxes) if item.targets else None
        return Reading(found.status, overlap, boxes=found.boxes, text=answer.response)

    def truth(self, item: Item) -> str:
        return str(list(item.target_boxes[0])) if item.targets else "None"

    def wrong(self, item: Item, random: np.random.Generator) -> str:
        """The true box, moved by half its width or height where there is room: a third of the union is common."""
        if not item.targets:
            return "None"
        x1, y1, x2, y2 = item.target_boxes[0]
        dx = (x2 - x1) / 2
        dy = (y2 - y1) / 2
        for right, down in ((dx, 0.0), (-dx, 0.0), (0.0, dy), (0.0, -dy)):
            moved = [x1 + right, y1 + down, x2 + right, y2 + down]
            if moved[0] >= 0 and moved[1] >= 0 and moved[2] <= item.width and moved[3] <= item.height:
                return str(moved)
        return str([x1, y1, x1 + 2 * dx / 3, y2])


CHOICE = ChoiceKind()
BOX = BoxKind()
TEXT = ReplyKind()
_KINDS = {kind.name: kind for kind in (CHOICE, BOX, TEXT)}


def kind_of(item: Item) -> ReplyKind:
    return _KINDS[item.kind]
