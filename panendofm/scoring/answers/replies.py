"""What a free reply to a multiple-choice question chooses: a cascade of rules, and a status when none may decide.

Only the status `ok` can be right. Nothing is guessed: a reply that names two options, or a letter beside another
option's text, is ambiguous. The first rule that fires is named in the result.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "invalid_option", "ambiguous", "refused", "empty", "truncated", "unparsed", "error"]
STATUSES: tuple[Status, ...] = (
    "ok", "invalid_option", "ambiguous", "refused", "empty", "truncated", "unparsed", "error",
)  # fmt: skip
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

_JSON_KEYS = ("answer", "choice", "option", "final_answer")
# Rules that a reply of which the end is missing may still be read by: they don't need the end.
_NEED_NO_END = ("letter", "letter_and_text", "text", "declared", "leading")

REFUSAL = re.compile(
    r"i(?:'m| am) sorry|i apologi[sz]e"
    r"|(?:can(?:no|')t|can not|(?: am|'m) (?:unable|not able) to|won't|decline to)"
    r" (?:\w+ )?(?:assist|help|provide|answer|comply|analy[sz]e|interpret|diagnose|view|see images|process images)"
    r"|as an ai\b|抱歉|无法(?:提供|回答|协助|判断)",
    re.IGNORECASE,
)
_HEDGE = r"(?:\s+(?:most\s+likely|probably|likely|clearly|therefore|thus|definitely))?"
_STRONG = re.compile(
    rf"(?:(?:final|correct|right|best|my)\s+(?:answer|option|choice)|answer)"
    rf"(?:\s+(?:is|would\s+be|should\s+be|must\s+be)\b{_HEDGE}\s*:?|\s*[:=])\s*(?:option\s+|choice\s+)?"
    r"|答案\s*(?:是|为|应为|[:=])?\s*|选(?:项|择)?\s*",
    re.IGNORECASE,
)
_WEAK = re.compile(r"\b(?:option|choice)\s*:?\s*(?=[(\[\"']?[A-Z](?![A-Za-z0-9']))", re.IGNORECASE)
_LETTER_HERE = re.compile(r"[(\[\"'<]*([A-Za-z])[)\]\"'>]*(?![A-Za-z0-9'])")
_LEADING = re.compile(r"[(\[]?([A-Za-z])(?:[)\]]|\s*[.:,;)\]-])\s*(.*)", re.DOTALL)
_LISTED = re.compile(r"^\s*[(\[]?([A-Z])[)\].:]", re.MULTILINE)
_CAPITAL = re.compile(r"(?<![A-Za-z0-9'])([A-Z])(?![A-Za-z0-9'])")
# Behind the article «a» none of these can stand, so the letter is an option's.
_NO_ARTICLE = re.compile(r"[ \t]+(?:or|and|is|because|since|vs|seems|appears)\b")
_NEGATED = re.compile(r"(?:\bnot|n't|\bnor|\bneither|\bexcept)\s+(?:option\s+)?[(\[\"']*$", re.IGNORECASE)


@dataclass(frozen=True)
class Choice:
    """What was read: the letter when the status is `ok`, and the rule that decided."""

    status: Status
    letter: str | None
    rule: str


def read_choice(reply: str, options: Sequence[str], finished: bool = True) -> Choice:
    """The option that a reply chooses. `finished` is False when the server cut the reply off."""
    text = unicodedata.normalize("NFKC", reply)
    if "</think>" in text:
        text = text.rpartition("</think>")[2]
    elif "<think>" in text:
        return Choice("truncated", None, "open_think")
    choice = _Reader(options).read(_plain(text))
    if finished or choice.rule in _NEED_NO_END or choice.status == "refused":
        return choice
    return Choice("truncated", None, "cut_off")


def read_first_letter(reply: str, options: Sequence[str]) -> Choice:
    """The first stand-alone capital letter that is an option's: a lenient reading that some papers use."""
    for found in _CAPITAL.finditer(unicodedata.normalize("NFKC", reply)):
        if found[1] in LETTERS[: len(options)]:
            return Choice("ok", found[1], "first_letter")
    return Choice("unparsed" if reply.strip() else "empty", None, "nothing" if reply.strip() else "empty")


def comparable(text: str) -> str:
    """Texts are equal when these are: one blank between words and after commas, no full stop at the ends, no case."""
    folded = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).casefold()
    return re.sub(r"\s*,\s*", ", ", folded).strip().strip(".").strip()


def texts_found(text: str, options: Sequence[str]) -> set[str]:
    """Letters of the options whose text stands in `text` on word boundaries; a longer text hides those inside it."""
    rest, found = comparable(text), set()
    for letter, option in sorted(zip(LETTERS, options, strict=False), key=lambda pair: -len(comparable(pair[1]))):
        pattern = rf"(?<!\w){re.escape(comparable(option))}(?!\w)"
        rest, count = re.subn(pattern, lambda match: "\0" * len(match[0]), rest)
        if count and option:
            found.add(letter)
    return found


def _plain(text: str) -> str:
    """The text without Markdown's stars, code fences and TeX's box."""
    text = re.sub(r"```[a-z]*\n?", "", text.replace("’", "'"))
    text = re.sub(r"\\(?:boxed|text|mathrm)\s*\{([^{}]*)\}", r"\1", re.sub(r"\\text\{([^{}]*)\}", r"\1", text))
    return text.replace("*", "").replace("`", "").replace("$", "").strip()


class _Reader:
    """The rules for one question's options."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = list(options)
        self.letters = LETTERS[: len(self.options)]
        self.by_text = {comparable(option): letter for letter, option in zip(LETTERS, self.options, strict=False)}

    def read(self, text: str) -> Choice:
        if not text:
            return Choice("empty", None, "empty")
        value = _json_answer(text)
        if value is not None:
            text = _plain(value)
        for rule in (self._whole, self._declared, self._place, self._refusal, self._mentioned):
            choice = rule(text)
            if choice is not None:
                return choice
        return Choice("unparsed", None, "nothing")

    def _chosen(self, letter: str, rule: str) -> Choice:
        letter = letter.upper()
        return Choice("ok", letter, rule) if letter in self.letters else Choice("invalid_option", None, rule)

    def _whole(self, text: str) -> Choice | None:
        """The reply is a letter, a letter and a text, or a text."""
        bare = text.strip(" \n\t()[]{}<>\"'.,:;")
        if len(bare) == 1 and bare.upper() in LETTERS:
            return self._chosen(bare, "letter")
        leading = _LEADING.fullmatch(text)
        if leading is not None:
            own = self.by_text.get(comparable(leading[2]))
            if own is not None:
                if own == leading[1].upper():
                    return self._chosen(own, "letter_and_text")
                return Choice("ambiguous", None, "letter_text_conflict")
        whole = self.by_text.get(comparable(text))
        return None if whole is None else Choice("ok", whole, "text")

    def _declared(self, text: str) -> Choice | None:
        """«The answer is B»: the last such sentence counts. «Option B» counts when no other option is named so."""
        strong = [choice for match in _STRONG.finditer(text) if (choice := self._said(text[match.end() :]))]
        if strong:
            return strong[-1]
        weak = [
            choice
            for match in _WEAK.finditer(text)
            if not _NEGATED.search(text[: match.start()]) and (choice := self._said(text[match.end() :]))
        ]
        if len({choice.letter for choice in weak}) > 1:
            return Choice("ambiguous", None, "several")
        return weak[-1] if weak else None

    def _said(self, rest: str) -> Choice | None:
        """What stands right behind «the answer is»."""
        match = _LETTER_HERE.match(rest)
        if match is not None and not self._is_word(rest, match.start(1)):
            letter = match[1].upper()
            behind = self._text_at(rest[match.end() :])
            if behind is not None and behind != letter:
                return Choice("ambiguous", None, "letter_text_conflict")
            return self._chosen(letter, "declared")
        own = self._text_at(rest)
        return None if own is None else Choice("ok", own, "declared")

    def _text_at(self, rest: str) -> str | None:
        """The option whose text `rest` begins with, behind punctuation."""
        start = comparable(rest.lstrip(" \n\t.:,;()[]\"'-")) if not rest.lstrip().startswith("[") else comparable(rest)
        for option in sorted(self.by_text, key=len, reverse=True):
            if option and re.match(rf"{re.escape(option)}(?!\w)", start):
                return self.by_text[option]
        return None

    def _is_word(self, text: str, at: int) -> bool:
        """Whether the letter at this place is the English word a or I: a blank and a lower-case word follow.

        Not when the reply goes on with that option's own text. Any lower-case letter before a word is a word too.
        """
        letter, rest = text[at], text[at + 1 :]
        if letter == "A" and _NO_ARTICLE.match(rest):
            return False
        if not re.match(r"[ \t]+[a-z]", rest) or (letter.upper() not in "AI" and letter.isupper()):
            return False
        return self._text_at(rest) != letter.upper()

    def _place(self, text: str) -> Choice | None:
        """A letter with a delimiter in front, or an answer alone on the last line; not in a list of options."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        last = lines[-1]
        if len(lines) > 1 and re.fullmatch(r"[(\[]?[A-Z][)\]]?", last):
            return self._chosen(last.strip("()[]"), "last_line")
        if len(set(_LISTED.findall(text))) > 1:
            return None
        leading = _LEADING.match(text)
        if leading is not None and leading[1].isupper() and not text.startswith("["):
            behind = self._text_at(leading[2])
            if behind is not None and behind != leading[1]:
                return Choice("ambiguous", None, "letter_text_conflict")
            return self._chosen(leading[1], "leading")
        if len(lines) > 1:
            choice = self._whole(last)
            return None if choice is None else Choice(choice.status, choice.letter, "last_line")
        return None

    def _refusal(self, text: str) -> Choice | None:
        return Choice("refused", None, "refusal") if REFUSAL.search(text) else None

    def _mentioned(self, text: str) -> Choice | None:
        """One letter that stands alone, or the text of one option, anywhere."""
        texts = texts_found(text, self.options)
        letters: dict[str, bool] = {}  # letter → whether it was named without a «not» before it
        for match in _CAPITAL.finditer(text):
            if match[1] in self.letters and not self._is_word(text, match.start(1)):
                plain = not _NEGATED.search(text[: match.start(1)])
                letters[match[1]] = letters.get(match[1], False) or plain
        if len(letters) > 1:
            return Choice("ambiguous", None, "several")
        for letter, plain in letters.items():
            if plain and (not texts or letter in texts):
                return Choice("ok", letter, "only_letter")
            if texts and letter not in texts:
                return Choice("ambiguous", None, "several")
        if len(texts) > 1:
            return Choice("ambiguous", None, "several")
        return Choice("ok", next(iter(texts)), "only_text") if texts and not letters else None


def _json_answer(text: str) -> str | None:
    """The answer in a JSON object that the reply is or holds."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[start:])
    except json.JSONDecodeError:
        return None
    if isinstance(value, dict):
        lowered = {str(key).lower(): item for key, item in value.items()}
        for key in _JSON_KEYS:
            if isinstance(lowered.get(key), str | int | list):
                return str(lowered[key])
    return None
