"""The grammar of free replies: which options a text names, and whether it chooses, rejects or only mentions them.

A reply becomes tokens in one pass. A second pass keeps the state of the clause (negation, condition, «the answer is»)
and gives every mention of an option its role. Both take linear time: no pattern repeats without a bound.

    The answer isn't A, it's C.     DECLARE NEGATE A COMMA CONTRAST C BREAK     A is rejected, C is declared
    A and B are wrong, so D         A JOIN B FILLER WRONG COMMA CONCLUDE D      A and B are rejected, D is declared
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from panendofm.scoring.answers.reply_phrases import MARKS, PHRASES

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Strength = Literal["", "weak", "strong"]

# At the start of a sentence these take back what was said before.
_RETRACTIONS = ("no", "wait", "actually", "correction", "hmm", "oops", "不", "不对", "等等")
# Behind the article «a» none of these can stand, so the letter is an option's.
_NO_ARTICLE = re.compile(
    r" (?:or|and|is|isn't|isnt|was|because|since|vs|versus|seems|appears|looks|fits|matches|does|doesn't|would|wouldn't"
    r"|can|can't|cannot|could|couldn't|should|has|must|as|but|rather|not|nor|for|due|to|it|with|given|by|shows|than|if"
    r"|on|in|are|through)\b",
    re.IGNORECASE,
)
_YES_NO = ("yes", "no")
_PARTICLES = "是为选择示于属在即像到见非和或了有的"


@dataclass(eq=False)
class Mention:
    """One place where a reply names an option."""

    letter: str
    text: bool  # named by its text, not by its letter
    first: bool  # the reply begins with it
    sentence: int
    line: int
    rejected: bool = False
    doubtful: bool = False  # in a question or a condition
    declared: Strength = ""
    final: bool = False  # it may overrule what was declared before
    label: bool = False  # «A.», «A:» or «(A)» in front of something
    conflict: bool = False  # its letter stands beside another option's text
    group: list[Mention] = field(default_factory=list, repr=False)  # «A, B or C»

    @property
    def stands(self) -> bool:
        return not self.rejected and not self.doubtful


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def mentions_in(text: str, options: Sequence[str]) -> list[Mention]:
    """All mentions in their order. Text and options have single blanks, and one blank behind each comma."""
    return _Clauses(text, options).mentions


@lru_cache(maxsize=512)
def _tokenizer(options: tuple[str, ...]) -> re.Pattern[str]:
    texts = sorted({option for option in options if option}, key=len, reverse=True)
    parts = [f"(?P<TEXT>{'|'.join(_text_pattern(text) for text in texts)})"] if texts else []
    for kind, (english, chinese) in PHRASES.items():
        parts.append(rf"(?P<{kind}>(?i:(?<![A-Za-z0-9])(?:{english})(?![A-Za-z0-9]|'[a-z])|{chinese}))")
    return re.compile("|".join([*parts, MARKS]))


def _text_pattern(text: str) -> str:
    """An option's text on word boundaries; Chinese has none, so there the neighbors must be particles."""
    escaped = re.escape(text)
    if re.search(r"[\u4e00-\u9fff]", text):
        return rf"(?:(?<!\w)|(?<=[{_PARTICLES}])){escaped}(?=[的了吧呢和或与]|\W|$)"
    if text.casefold() in _YES_NO:
        return rf"(?<!\w)(?i:{escaped})(?! ?(?!and\b|or\b)\w)"  # «no bleeding» is not the answer «No»
    ahead = r"(?<!\w)(?<!\d\.)" if text[0].isdigit() else r"(?<!\w)"
    behind = r"(?!\w|\.\d)" if text[-1].isdigit() else r"(?!\w)"
    return rf"{ahead}(?i:{escaped}){behind}"


class _Clauses:
    """Reads the tokens of one reply in order."""

    def __init__(self, text: str, options: Sequence[str]) -> None:
        self.mentions: list[Mention] = []
        self._of_text = {option.casefold(): letter for letter, option in zip(LETTERS, options, strict=False)}
        self._text = text
        self._tokens = [
            _Token("LETTER" if found["LETTER"] else str(found.lastgroup), found[0], found.start(), found.end())
            for found in _tokenizer(tuple(options)).finditer(text)
        ]
        self._sentence = 0
        self._line = 0
        self._open: list[Mention] | None = None  # a group that the next mention may join
        self._joining = False  # a comma, «and» or «or» stands behind the open group
        self._subject: list[Mention] | None = None  # what «… is wrong» speaks of
        self._negation = ""  # or the kind of token that negates: NEGATE, UNSURE, UNLIKE
        self._condition = False
        self._unreal = False  # until the sentence ends
        self._retracting = False  # what was said before is taken back, and nothing is said instead yet
        self._declared: Strength = ""
        self._final = False
        at = 0
        while at < len(self._tokens):
            at = self._take(at)
        self._end_clause()

    def _take(self, at: int) -> int:
        """Read the token at this place and return the place of the next."""
        token = self._tokens[at]
        fresh = at == 0 or self._tokens[at - 1].kind == "BREAK"
        if token.kind == "TEXT":
            self._mention(self._of_text[token.text.casefold()], True, at)
        elif token.kind == "LETTER":
            return self._letter(at)
        elif token.kind in ("JOIN", "JOIN2", "COMMA"):
            self._join()
        elif token.kind == "COLON":
            self._colon(token)
        elif token.kind == "BREAK":
            self._break(token)
        elif token.kind == "PAREN":
            if token.text in "([{":
                self._end_clause()
        elif token.kind != "SHARE" and not (
            self._joining and (token.kind == "OPTION" or token.text.lower() == "the")
        ):  # «A or option B»
            self._phrase(token, fresh)
        return at + 1

    # -------------------------------------------------------------------------------------- mentions

    def _letter(self, at: int) -> int:
        token = self._tokens[at]
        letter = token.text.strip("()[]{}<>\"'")
        if token.text[0] in "([{" and token.text[-1] not in ")]}":
            self._end_clause()  # «B (A is wrong)»
        following = self._tokens[at + 1] if at + 1 < len(self._tokens) else None
        if self._is_word(letter, token, following):
            if letter != "a":
                self._phrase(_Token("FILLER" if letter == "I" else "WORD", letter, token.start, token.end), False)
            return at + 1
        mention = self._mention(letter.upper(), False, at)
        mention.label = token.text[-1] in ")]"
        return self._text_behind(mention, at)

    def _text_behind(self, mention: Mention, at: int) -> int:
        """«A. Esophagus»: the letter and its text are one mention; the letter and another text are a conflict."""
        place = at + 1
        while place < min(at + 3, len(self._tokens)) and (
            self._tokens[place].text in (".", ":", "-", "(", "=", "–", "—") or self._tokens[place].text.lower() == "the"
        ):
            place += 1
        if place < len(self._tokens) and self._tokens[place].kind == "TEXT":
            mention.label = True
            mention.conflict = self._of_text[self._tokens[place].text.casefold()] != mention.letter
            return place + 1 if not mention.conflict else at + 1
        starts = at == 0 or self._tokens[at - 1].kind == "BREAK"
        if starts and at + 1 < len(self._tokens) and self._tokens[at + 1].text == ".":
            mention.label = True
            self._open = None
            return at + 2
        return at + 1

    def _is_word(self, letter: str, token: _Token, following: _Token | None) -> bool:
        """Whether a letter is the article or the pronoun. A lower-case letter counts right behind «the answer is»."""
        rest = self._text[token.end : token.end + 40]
        if letter.islower():
            return not self._declared or re.match(r" ?\w", rest) is not None
        if letter not in "AI" or token.text != letter or not re.match(r" [A-Za-z][a-z'-]", rest):
            return False
        if letter == "A" and _NO_ARTICLE.match(rest):
            return False
        if following is None or following.kind != "TEXT":
            return True
        return following.text[0].islower() and self._of_text[following.text.casefold()] != letter

    def _mention(self, letter: str, text: bool, at: int) -> Mention:
        mention = Mention(letter, text, at == 0, self._sentence, self._line, doubtful=self._condition or self._unreal)
        mention.rejected = self._negation != ""
        self._retracting = False
        if self._open is not None:
            mention.group = self._open
            mention.declared, mention.final = self._open[0].declared, self._open[0].final
        elif self._declared and not mention.rejected:
            mention.declared, mention.final = self._declared, self._final
            self._declare("")
        mention.group.append(mention)
        self._open = mention.group
        self._joining = False
        self._subject = mention.group
        self.mentions.append(mention)
        return mention

    # -------------------------------------------------------------------------------------- what stands between them

    def _join(self) -> None:
        if self._open is None:
            self._end_clause()
        else:
            self._joining = True

    def _colon(self, token: _Token) -> None:
        if self._open is not None:
            self.mentions[-1].label = True
            if token.text == "-" and self._text[token.end : token.end + 1].isalpha():
                return  # A-C
        if self._negation == "UNSURE":
            self._negation = ""
        self._open = None

    def _break(self, token: _Token) -> None:
        declared, final = self._declared, self._final
        self._end_clause()
        self._declare("")
        if token.text == "?":
            for mention in reversed(self.mentions):
                if mention.sentence != self._sentence:
                    break
                mention.doubtful = True
        self._sentence += 1
        self._unreal = False
        if self._retracting:
            self._declare(declared, final)  # «Wait, no. It is B.»
        if token.text == "\n":
            self._line += 1
            self._declare(declared, final)  # «Answer:» with the letter on the next line

    def _phrase(self, token: _Token, fresh: bool) -> None:
        if self._joining:  # the comma behind a group ended its clause
            self._end_clause()
        self._open = None
        kind = token.kind
        if fresh and token.text.lower() in _RETRACTIONS:
            self._declare("strong", final=True)
            self._retracting = True
        elif kind == "OTHERS":
            self._condition = True
        elif kind == "UNREAL":
            self._unreal = True
        elif kind in ("NEGATE", "UNSURE", "UNLIKE"):
            if token.text.lower() == "nor":
                self._reject_subject()
            self._negation = kind
        elif kind == "WRONG":
            self._reject_subject()
            self._negation = "NEGATE"
        elif kind in ("CONCLUDE", "FORCED"):
            self._end_clause()
            self._declare("strong", final=True)
        elif kind == "CONTRAST" or (kind == "PRONOUN" and self._subject):
            self._end_clause()
        elif kind == "DOUBT":
            for mention in self._subject or ():
                mention.doubtful = True
        elif kind in ("FINAL", "DECLARE"):
            self._apply_negation()
            self._declare("strong", final=kind == "FINAL" or self._final)
        elif kind == "OPTION" and not self._declared:
            self._declare("weak")
        elif kind == "RIGHT":
            self._apply_negation()
            for mention in self._subject or ():
                mention.declared = "strong"
        elif kind == "IF":
            self._condition = True
        elif kind in ("WORD", "NAMED"):
            self._apply_negation()
            self._declare("")

    def _apply_negation(self) -> None:
        """«A does not …»: the negation speaks of the subject, because no mention followed it."""
        if self._negation == "NEGATE":
            self._reject_subject()

    def _reject_subject(self) -> None:
        for mention in self._subject or ():
            mention.rejected = True

    def _end_clause(self) -> None:
        if self._open is None:
            self._apply_negation()
        self._open = None
        self._joining = False
        self._subject = None
        self._negation = ""
        self._condition = False

    def _declare(self, strength: Strength, final: bool = False) -> None:
        self._declared = strength
        self._final = final
