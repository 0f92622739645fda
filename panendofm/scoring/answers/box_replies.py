"""What a free reply to «where is it?» says: boxes in pixels, none, or a status when nothing can be read.

Boxes are corners [x1, y1, x2, y2], right and bottom excluded. They may stand in brackets, as two points, or by name.
All patterns take linear time: none repeats without a bound over what another may match.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from panendofm.scoring.answers.replies import REFUSAL, without_thoughts

Box = tuple[float, float, float, float]
BoxStatus = Literal["ok", "none", "invalid_box", "refused", "empty", "truncated", "unparsed", "error"]
BOX_STATUSES: tuple[BoxStatus, ...] = (
    "ok", "none", "invalid_box", "refused", "empty", "truncated", "unparsed", "error",
)  # fmt: skip
CONVENTIONS = ("pixel", "unit", "permille", "permille_yx")

_NUMBER = r"([-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,3})?)(?: ?(?:px|pixels?|像素))?"
_BETWEEN = r"(?: ?[,;] ?| )"
_FOUR = _BETWEEN.join([_NUMBER] * 4)
_POINT = rf"[(\[] ?{_NUMBER}{_BETWEEN}{_NUMBER} ?[)\]]"
_BRACKETED = re.compile(rf"(?:[\[(]|<box>|<bbox>|<\|box_start\|>) ?{_FOUR} ?(?=[\])]|<)")
_CORNER = r"(?:the )?(?:bottom|lower)[- ]right(?: corner)?(?: is)?(?: at)? ?:?"
_POINTS = re.compile(rf"{_POINT}(?P<gap> ?(?:,|;|-|–|to|and|→|至|到|和)? ?(?:{_CORNER}|右下角?:?)? ?(?={_POINT}))?")
_NAMED = re.compile(
    rf"(?<![A-Za-z])(x_?1|y_?1|x_?2|y_?2|x_?min|y_?min|x_?max|y_?max|left|top|right|bottom|x|y|width|height|w|h)"
    rf"[\"']? ?[:=] ?[\"']?{_NUMBER}",
    re.IGNORECASE,
)
_SIDES = {
    "x1": 0, "xmin": 0, "left": 0, "x": 0, "y1": 1, "ymin": 1, "top": 1, "y": 1,
    "x2": 2, "xmax": 2, "right": 2, "y2": 3, "ymax": 3, "bottom": 3,
    "width": 4, "w": 4, "height": 5, "h": 5,
}  # fmt: skip
_BARE = re.compile(rf"{_FOUR} ?\.?")
_NONE = (
    "none",
    "null",
    "[]",
    "[[]]",
    "()",
    "{}",
    "no lesion",
    "no box",
    "n/a",
    "无",
    "没有",
    "无病变",
    "未见病变",
    "未见异常",
)


@dataclass(frozen=True)
class BoxReply:
    status: BoxStatus
    boxes: tuple[Box, ...] = ()


def read_boxes(reply: str, size: tuple[int, int], convention: str = "pixel", finished: bool = True) -> BoxReply:
    """The boxes that a reply names, in pixels of an image of `size` (width, height), clamped to it."""
    thoughtless = without_thoughts(reply)
    if thoughtless is None:
        return BoxReply("truncated")
    lines = [line.strip() for line in re.sub(r"[*`]|json\n", "", thoughtless).splitlines() if line.strip()]
    text = re.sub(r"\s+", " ", " ".join(lines))
    if not text:
        return BoxReply("empty")
    found = list(_corners(text))
    named = [] if found else list(_named_sides(text))
    if not found and not named:
        if lines[-1].strip(" .\"'。").lower() in _NONE:
            return BoxReply("none")
        if REFUSAL.search(text):
            return BoxReply("refused")
        return BoxReply("unparsed" if finished else "truncated")
    if named:  # names leave no doubt which number is x
        convention = convention.removesuffix("_yx")
    boxes = [box for values in found or named if (box := _to_pixels(values, size, convention)) is not None]
    return BoxReply("ok", tuple(boxes)) if boxes else BoxReply("invalid_box")


def _corners(text: str) -> Iterator[Sequence[float]]:
    """Four numbers a box, in the first of the forms that the text has."""
    listed = [match.groups() for match in _BRACKETED.finditer(text)]
    if listed:
        yield from (_floats(values) for values in listed)
        return
    pairs = list(_two_points(text))
    if pairs:
        yield from pairs
        return
    bare = _BARE.fullmatch(text)
    if bare is not None:
        yield _floats(bare.groups())


def _two_points(text: str) -> Iterator[Sequence[float]]:
    """Runs of exactly two points; three or more are an outline, which is no box."""
    run: list[float] = []
    for match in _POINTS.finditer(text):
        run += _floats(match.groups()[:2])
        if match["gap"] is None:
            if len(run) == 4:
                yield run
            run = []


def _named_sides(text: str) -> Iterator[Sequence[float]]:
    """«x1: …, y1: …, x2: …, y2: …» in any order, or x, y, width and height."""
    sides: dict[int, float] = {}
    for match in _NAMED.finditer(text):
        side = _SIDES[match[1].lower().replace("_", "")]
        if side in sides:
            sides = {}
        sides[side] = float(match[2])
        if {0, 1, 2, 3} <= sides.keys():
            yield [sides[0], sides[1], sides[2], sides[3]]
            sides = {}
        elif {0, 1, 4, 5} <= sides.keys():
            yield [sides[0], sides[1], sides[0] + sides[4], sides[1] + sides[5]]
            sides = {}


def _floats(values: Sequence[str]) -> list[float]:
    return [float(value) for value in values]


def _to_pixels(values: Sequence[float], size: tuple[int, int], convention: str) -> Box | None:
    width, height = size
    a, b, c, d = values
    if convention == "permille_yx":
        a, b, c, d = b, a, d, c
    scale = {"pixel": (1.0, 1.0), "unit": (width, height)}.get(convention, (width / 1000, height / 1000))
    x1, x2 = (min(max(v * scale[0], 0.0), float(width)) for v in (a, c))
    y1, y2 = (min(max(v * scale[1], 0.0), float(height)) for v in (b, d))
    return (x1, y1, x2, y2) if x1 < x2 and y1 < y2 else None
