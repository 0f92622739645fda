"""What each reply says, and whether it is right."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from panendofm.scoring.answers.choices import letter_before_rotation
from panendofm.scoring.answers.replies import STATUSES, Choice, read_choice, read_first_letter
from panendofm.vqa.bench.items import Bench, Item
from panendofm.vqa.client.answers import Answer, AnswerSet
from panendofm.vqa.client.prompts import Variant

MODES = ("cascade", "first_letter")


@dataclass(frozen=True)
class Verdict:
    """One reply to a multiple-choice question; `chosen` is the letter of the option in the bench's own order."""

    status: str
    replied: str | None
    chosen: str | None
    rule: str
    right: bool


def verdict_of(item: Item, answer: Answer | None, mode: str = "cascade") -> Verdict:
    """No answer, and one that failed, is wrong."""
    if answer is None or answer.error is not None:
        return Verdict("error", None, None, "no_answer", False)
    if answer.finish_reason == "content_filter" and not answer.response.strip():
        return Verdict("refused", None, None, "content_filter", False)
    rotation = answer.variant.rotation
    options = [*item.options[rotation:], *item.options[:rotation]]
    choice: Choice
    if mode == "first_letter":
        choice = read_first_letter(answer.response, options)
    else:
        choice = read_choice(answer.response, options, finished=answer.finish_reason != "length")
    if choice.letter is None:
        return Verdict(choice.status, None, None, choice.rule, False)
    chosen = letter_before_rotation(choice.letter, rotation, len(options))
    return Verdict(choice.status, choice.letter, chosen, choice.rule, chosen == item.answer)


@dataclass(frozen=True)
class Sheet:
    """All verdicts of one contestant on the multiple-choice questions of a bench."""

    name: str
    verdicts: dict[tuple[str, Variant], Verdict]
    prompt: str

    def plain(self, item: Item) -> Verdict | None:
        return self.verdicts.get((item.id, Variant(prompt=self.prompt)))


def sheet_of(bench: Bench, answers: AnswerSet, mode: str = "cascade") -> Sheet:
    verdicts = {
        key: verdict_of(bench.by_id[key[0]], answer, mode)
        for key, answer in answers.answers.items()
        if bench.by_id[key[0]].kind == "choice"
    }
    prompt = next(iter(answers.answers))[1].prompt
    return Sheet(answers.name, verdicts, prompt)


def status_counts(sheet: Sheet, items: list[Item]) -> dict[str, int]:
    """Of the plain questions; they add up to the number of questions."""
    counts = Counter(v.status if (v := sheet.plain(item)) is not None else "error" for item in items)
    return {status: counts.get(status, 0) for status in STATUSES}
