"""What a free reply to a multiple-choice question chooses, and a status when nothing may be decided.

Only the status `ok` can be right. Nothing is guessed: a reply that names two options, or a letter beside another
option's text, is ambiguous. `reply_grammar.py` says which options a reply names and how; here the rules decide, and the
first that fires is named in the result.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from panendofm.scoring.answers.reply_grammar import LETTERS as LETTERS
from panendofm.scoring.answers.reply_grammar import Mention, mentions_in

Status = Literal["ok", "invalid_option", "ambiguous", "refused", "empty", "truncated", "unparsed", "error"]
STATUSES: tuple[Status, ...] = (
    "ok", "invalid_option", "ambiguous", "refused", "empty", "truncated", "unparsed", "error",
)  # fmt: skip

# Without blanks, lines and case; the first that an object has counts.
_JSON_KEYS = (
    "finalanswer", "answer", "correctanswer", "answerletter", "choice", "finalchoice", "option", "selectedoption",
    "correctoption", "letter", "最终答案", "答案", "正确答案", "选项", "选择",
)  # fmt: skip
_MOST_OBJECTS = 20  # of JSON in one reply
# Rules that a reply of which the end is missing may still be read by: they don't need the end.
_NEED_NO_END = ("letter", "letter_and_text", "text", "declared", "leading")

REFUSAL = re.compile(
    r"i(?:'m| am) sorry|i apologi[sz]e"
    r"|(?:can(?:no|')t|can not|(?: am|'m) (?:unable|not able) to|won't|decline to)"
    r" (?:\w{1,20} )?(?:assist|help|provide|answer|comply|analy[sz]e|interpret|diagnose|view|see images|process images)"
    r"|as an ai\b|抱歉|对不起|(?:无法|不能)(?:提供|回答|协助|判断|诊断|分析|查看)",
    re.IGNORECASE,
)
_CAPITAL = re.compile(r"(?<![A-Za-z0-9'])([A-Z])(?![A-Za-z0-9'])")
_LABELED = re.compile(r"[(\[]?([A-Za-z])(?:[)\]]|\s?[.:,;)\]-])\s*(.*)", re.DOTALL)


@dataclass(frozen=True)
class Choice:
    """What was read: the letter when the status is `ok`, and the rule that decided."""

    status: Status
    letter: str | None
    rule: str


_SEVERAL = Choice("ambiguous", None, "several")
_CONFLICT = Choice("ambiguous", None, "letter_text_conflict")


def read_choice(reply: str, options: Sequence[str], finished: bool = True) -> Choice:
    """The option that a reply chooses. `finished` is False when the server cut the reply off."""
    text = without_thoughts(reply)
    if text is None:
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


def without_thoughts(reply: str) -> str | None:
    """The normalized reply behind a model's thoughts; None when the thoughts never end."""
    text = unicodedata.normalize("NFKC", reply)
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return None if "<think>" in text else text


def comparable(text: str) -> str:
    """Texts are equal when these are: one blank between words and after commas, no full stop at the ends, no case."""
    folded = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text)).casefold()
    return re.sub(r" ?, ?", ", ", folded).strip().strip(".").strip()


def _plain(text: str) -> str:
    """The text without Markdown's stars, code fences and TeX's box."""
    text = re.sub(r"```(?:[a-z]{1,20}\n)?", "", text.replace("’", "'").replace("‘", "'"))
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\(?:boxed|mathrm|mathbf) ?\{([^{}]*)\}", r" \1 ", text)
    return re.sub(r"[*`$#“”]|</?answer>", "", text).strip()


def _single_blanks(text: str) -> str:
    """One blank between words and behind commas, one line break between lines."""
    text = re.sub(r"[^\S\n]+", " ", text)
    text = re.sub(r" ?\n[ \n]*", "\n", text)
    return re.sub(r" ?, ?", ", ", text)


class _Reader:
    """The rules for one question's options."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = [comparable(option) for option in options]
        self.letters = LETTERS[: len(options)]
        self.by_text = dict(zip(self.options, LETTERS, strict=False))

    def read(self, text: str) -> Choice:
        if not text:
            return Choice("empty", None, "empty")
        answers = _json_answers(text)
        if len(answers) > 1:
            return _SEVERAL
        if answers:
            text = _plain(answers.pop())
        whole = self._whole(text)
        if whole is not None:
            return whole
        plain = _single_blanks(text)
        mentions = mentions_in(plain, self.options)
        choice = self._declared(mentions) or self._leading(mentions) or self._last(text, plain, mentions)
        if choice is None and REFUSAL.search(text):
            choice = Choice("refused", None, "refusal")
        return choice or self._mentioned(mentions) or Choice("unparsed", None, "nothing")

    def _chosen(self, letter: str, rule: str) -> Choice:
        letter = letter.upper()
        return Choice("ok", letter, rule) if letter in self.letters else Choice("invalid_option", None, rule)

    def _whole(self, text: str) -> Choice | None:
        """The reply is a letter, a letter and a text, or a text."""
        bare = text.strip(" \n\t()[]{}<>\"'.,:;!?。")
        if len(bare) == 1 and bare.upper() in LETTERS:
            return self._chosen(bare, "letter")
        labeled = _LABELED.fullmatch(text)
        if labeled is not None:
            own = self.by_text.get(comparable(labeled[2].strip("()")))
            if own is not None:
                return self._chosen(own, "letter_and_text") if own == labeled[1].upper() else _CONFLICT
        whole = self.by_text.get(comparable(text.rstrip("。!")))
        return None if whole is None else Choice("ok", whole, "text")

    def _declared(self, mentions: Sequence[Mention]) -> Choice | None:
        """«The answer is B». A later line, «therefore» and «the final answer» overrule what was declared before."""
        strong = [m for m in mentions if m.declared == "strong" and m.stands]
        if strong:
            decided = strong[-1]
            group = [m for m in decided.group if m.stands]
            before = [m for m in strong if m.group is not decided.group and m.line == decided.line]
            if len({m.letter for m in group}) > 1:
                return _SEVERAL
            if any(m.conflict for m in group):
                return _CONFLICT
            if not decided.final and any(m.letter != decided.letter for m in before):
                return _SEVERAL
            later = mentions[mentions.index(decided) :]
            if any(m.rejected and m.letter == decided.letter for m in later):
                return _SEVERAL
            return self._chosen(decided.letter, "declared")
        weak = {m.letter for m in mentions if m.declared == "weak" and m.stands}
        named = {m.letter for m in mentions if m.stands and m.letter in self.letters}
        if weak and weak == (weak | named):
            return self._chosen(weak.pop(), "declared") if len(weak) == 1 else _SEVERAL
        return None

    def _leading(self, mentions: Sequence[Mention]) -> Choice | None:
        """A letter with a delimiter in front, unless more options are listed or named beside it."""
        first = mentions[0] if mentions and mentions[0].first else None
        if first is None or not first.stands or not (first.label or first.text):
            return None
        others = [m for m in mentions if m.letter != first.letter and m.stands]
        if any(m.label or m.text or m.sentence == first.sentence for m in others if m.letter in self.letters):
            return None
        if any(m.rejected for m in mentions if m.letter == first.letter) or first.text:
            return None
        return _CONFLICT if first.conflict else self._chosen(first.letter, "leading")

    def _last(self, text: str, plain: str, mentions: Sequence[Mention]) -> Choice | None:
        """An answer alone on the last line, or a letter alone as the last sentence."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if len(lines) > 1:
            choice = self._whole(lines[-1])
            listed = self._whole(lines[-2]) is not None  # the last of several options, one a line
            if choice is not None and not listed:
                return Choice(choice.status, choice.letter, "last_line")
        if not mentions or not mentions[-1].stands or mentions[-1].text:
            return None
        last = mentions[-1]
        alone = re.search(r"[A-Za-z\u4e00-\u9fff]{2}(?<!\bvs)[.!。] \(?([A-Z])\)?[.!]?$", plain)
        return self._chosen(last.letter, "last_line") if alone and alone[1] == last.letter else None

    def _mentioned(self, mentions: Sequence[Mention]) -> Choice | None:
        """One letter that is named and not rejected, or the text of one option, anywhere."""
        inside = [m for m in mentions if m.letter in self.letters]
        rejected = {m.letter for m in inside if m.rejected}
        letters = {m.letter for m in inside if not m.text and m.stands}
        texts = {m.letter for m in inside if m.text}
        if inside and not letters and inside[-1].sentence == 0 and inside[-1].stands:
            texts -= rejected  # «Not the esophagus but the stomach»; longer replies speak of other texts, too
        if len(letters) > 1 or len(texts - letters) > (0 if letters else 1):
            return _SEVERAL
        if letters and not letters & rejected and not any(m.conflict for m in inside):
            return Choice("ok", letters.pop(), "only_letter")
        standing = {m.letter for m in inside if m.text and m.stands}
        if not letters and standing and not standing & rejected:
            return Choice("ok", standing.pop(), "only_text")
        return _SEVERAL if len({m.letter for m in inside}) > 1 else None


def _json_answers(text: str) -> set[str]:
    """What the JSON objects in a reply give as the answer."""
    found: set[str] = set()
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        try:
            value, end = json.JSONDecoder().raw_decode(text, start)
        except (json.JSONDecodeError, RecursionError):
            start = text.find("{", start + 1)
            continue
        answer = _answer_in(value)
        if answer is not None:
            found.add(answer)
        start = text.find("{", end)
    return found


def _answer_in(value: Any) -> str | None:
    if isinstance(value, dict):
        by_key = {re.sub(r"[\s_-]", "", str(key)).lower(): item for key, item in value.items()}
        for key in _JSON_KEYS:
            item = by_key.get(key)
            if isinstance(item, str | int | list):
                return str(item)
            if isinstance(item, dict) and (inner := _answer_in(item)) is not None:
                return inner
    return None
