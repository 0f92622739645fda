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

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Strength = Literal["", "weak", "strong"]

_GOOD = r"(?:correct|right|best|my|most likely|chosen|selected|most appropriate)[ _]"
# Kind of token → English phrases, Chinese phrases. The first kind that matches wins.
_PHRASES: dict[str, tuple[str, str]] = {
    # A letter behind one of these is a grade or the name of a thing, not an option.
    "NAMED": (
        r"(?:grade|type|class|stage|hepatitis|vitamin|group|figure|fig\.?|panel|image|picture|level|forrest|paris|siewert"
        r"|la|mayo|phase|plan|part|category|score|subtype|borrmann|segment|frame|point|zone) [A-Z]",
        r"[A-Z](?:型|级|期|区)|[图型]\s?[A-Z]",
    ),
    # Phrases with a negation that deny nothing.
    "IDIOM": (
        r"no doubt|without (?:a |any )?doubt|not only|nothing but|none other than|no question|doubtless",
        r"毫无疑问|无疑",
    ),
    "FORCED": (
        r"if (?:i (?:had|have|must|were)|forced|pressed|asked|pushed)"
        r"(?: (?:to|i|pick|choose|guess|answer|select|decide|say|one|commit|make|a|best)){0,6}|(?:my )?best guess",
        r"如果(?:必须|一定要|非要|要)我?选(?:择|一个)?|非要选(?:的话)?",
    ),
    "UNSURE": (
        r"(?:not|never|cannot|hard to|difficult to|[a-z]{2,6}n't|unable to)(?: [a-z]+)?"
        r" (?:sure|certain|confident|determine|tell|see|know|diagnose|identify)",
        r"不太?(?:确定|清楚)|无法(?:确定|判断|看清|诊断)|不能(?:确定|诊断)|看不清",
    ),
    # They reject what follows, not what they are said of.
    "UNLIKE": (
        r"(?:any|every)thing (?:but|except)|all (?:but|except)|other than|rather than|instead of|apart from|aside from"
        r"|except(?: for)?|besides|excluding|unlike|(?:more|better|rather)(?: [a-z]+){0,3} than|as opposed to",
        r"除了?|而非|而不是",
    ),
    "WRONG": (
        r"wrong|incorrect|false|untrue|unlikely|improbable|impossible|implausible|inconsistent|mistaken"
        r"|(?:less|least) (?:likely|probable|plausible|fitting)|exclud[a-z]+|eliminat[a-z]+"
        r"|rul(?:e|es|ed|ing) (?:it )?out"
        r"|dismiss[a-z]*|discard[a-z]*|reject[a-z]*|distractors?|lack[a-z]*|fail[a-z]*|out",
        r"错误?|有误|排除|可能性(?:较|很)?(?:小|低)",
    ),
    "NEGATE": (
        r"[a-z]{2,6}n't|cannot|can not|cant|isnt|not|never|neither|nor|no|none|nothing|without|hardly",
        r"[并绝也都既]{0,2}(?:不(?:是|选|能|可能|应该?|会|像|符合|太)?|没有?|非)",
    ),
    "CONCLUDE": (
        r"therefore|thus|hence|so|consequently|accordingly|in conclusion|in summary|to conclude|conclusion|overall"
        r"|ultimately|verdict",
        r"因此|所以|综上(?:所述)?|总之|结论|故",
    ),
    "CONTRAST": (
        r"but|however|rather|instead|because|since|as|given|due to|then|which|leaving|leaves"
        r"|while|whereas|although|though",
        r"而是|但是?|而|因为|由于|只剩下?|剩下|虽然",
    ),
    # They begin a clause when a mention stands before them: «not A it's C», but not «I don't think it's A».
    "PRONOUN": (r"it's|it is|that's|this is", r"这是"),
    # Behind a mention they leave it open.
    "DOUBT": (r"maybe|perhaps|possibly|possible|unclear", r"也许|或许|不好说"),
    "FINAL": (r"(?:the |my |so |your )?final[ _]?(?:answer|choice|option|decision)s?", r"最终(?:答案|选择)"),
    "DECLARE": (
        rf"(?:{_GOOD}){{0,3}}answers?(?:[ _]letter)?(?: to (?:this|the|your|that) question)?"
        rf"|(?:{_GOOD}){{1,3}}(?:choice|option|diagnosis)"
        r"|i(?:'d| would| will|'ll| must| shall)? (?:choose|pick|select|go (?:with|for)|vote for|opt for)"
        r"|i'm going with",
        r"(?:正确|最佳|我的|本题|参考){0,3}答案|(?:正确|最佳)选项|(?:应该?|我会?|必须|只能)?选(?!项)择?",
    ),
    "OPTION": (r"options?|choices?|letter", r"选项"),
    # Behind a mention: «B is the correct one».
    "RIGHT": (
        r"(?:is|are|was|would be|must be|should be|seems|looks|appears|fits|matches)"
        r"(?: (?:also|clearly|definitely|certainly|probably|therefore|thus|the|most|to be|my|only|much)){0,4}"
        r" (?:correct|right|best|true|answer|choice|more likely|likely|more probable|more plausible|appropriate"
        r"|accurate|plausible|consistent)(?!-| (?:colon|side|flexure|colic|hand|lobe|to be))",
        r"(?:是|为|才是|才|最为?|更)?(?:正确|对的?|符合)的?(?:答案|选项)?",
    ),
    "IF": (r"if|whether|suppose|assuming|unless", r"如果|假如|是否|若"),
    "JOIN": (r"and|or|versus|vs", r"和|或者?|与|及|以及|还是"),
    # Words that may stand between «the answer» and the letter.
    "FILLER": (
        r"the|be|is|are|was|would|should|must|will|to|most|likely|probably|definitely|clearly|certainly|we|think"
        r"|believe|say|guess|an|it|this|that|here|just|only|surely|also|again|been|has|have",
        r"还?是|为|应该?|我|认为|觉得|就|该|本|题|的|了|最|可能|也|更|一定|肯定|显然",
    ),
}  # fmt: skip
_MARKS = (
    r"(?P<SHARE>\(?\d{1,3}(?:\.\d{1,4})? ?%\)?)|"
    r"(?P<LETTER>[(\"'\[<{]{0,3}(?<![A-Za-z0-9])(?P<letter>[A-Za-z])(?![A-Za-z0-9]|'[a-z]|-[a-z])[)\"'\]>}]{0,3})"
    r"|(?P<JOIN2>[/&+、>|~])|(?P<COMMA>,)|(?P<COLON>[:=\-–—→])|(?P<BREAK>[.!?;。…\n])|(?P<PAREN>[()\[\]{}])"
    r"|(?P<WORD>[A-Za-z0-9%]+(?:'[a-z]+)?|\w)"
)
# At the start of a sentence these take back what was said before.
_RETRACTIONS = ("no", "wait", "actually", "correction", "hmm", "oops", "不", "不对", "等等")
# Behind the article «a» none of these can stand, so the letter is an option's.
_NO_ARTICLE = re.compile(
    r" (?:or|and|is|isn't|isnt|was|because|since|vs|versus|seems|appears|looks|fits|matches|does|doesn't|would|wouldn't"
    r"|can|can't|cannot|could|couldn't|should|has|must|as|but|rather|not|nor|for|due|to|it|with|given|by|shows|than|if"
    r"|on|in|are)\b",
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
    for kind, (english, chinese) in _PHRASES.items():
        parts.append(rf"(?P<{kind}>(?i:(?<![A-Za-z0-9])(?:{english})(?![A-Za-z0-9]|'[a-z])|{chinese}))")
    return re.compile("|".join([*parts, _MARKS]))


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
        mention = Mention(letter, text, at == 0, self._sentence, self._line, doubtful=self._condition)
        mention.rejected = self._negation != ""
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
        elif kind in ("NEGATE", "UNSURE", "UNLIKE"):
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
