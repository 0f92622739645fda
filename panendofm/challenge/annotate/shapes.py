"""What an annotation tool says of an image, whichever tool it is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import Box
from panendofm.runtime.errors import UserError
from panendofm.runtime.names import printable

NOTHING = "no finding"  # the label of an image in which nothing was found: tools have no empty one
SERIAL, DECISION = "serial", "decision"
UNDECIDED = "undecided"
DECISIONS = (UNDECIDED, "gold", "back")
# What reading a document of another shape raises.
MALFORMED = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
_NOTES = re.compile(rf"\b({SERIAL}|{DECISION})=(\S+)")
Points = tuple[tuple[float, float], ...]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Shape:
    """A box, an outline or a mask; or none of them: a label of the whole image.

    `notes`: the serial of the candidate that it was made from, and the decision about it.
    """

    category: str
    box: Box | None = None
    outline: Points | None = None
    mask: Mask | None = None  # [H, W]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_label(self) -> bool:
        return self.box is None and self.outline is None and self.mask is None

    @property
    def label(self) -> str:
        """What a tool calls it: an empty category is a label of its own there."""
        return self.category or NOTHING

    def outlines(self) -> list[Points]:
        """Its outline, or the outer borders of its mask; none of a box or label."""
        if self.outline is not None:
            return [self.outline]
        if self.mask is None:
            return []
        found, _ = cv2.findContours(self.mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        return [tuple((float(x), float(y)) for x, y in border[:, 0]) for border in found if len(border) > 2]

    def drawn(self, size: tuple[int, int]) -> Mask | None:
        """Outline or mask as pixels; None for boxes and labels."""
        if self.outline is None:
            return self.mask
        canvas = np.zeros((size[1], size[0]), np.uint8)
        cv2.fillPoly(canvas, [np.round(np.array(self.outline)).astype(np.int32)], 1)
        return canvas.astype(bool)


@dataclass(frozen=True)
class AnnotatedImage:
    """One person's annotation of one image, or of one frame of a video."""

    file: str
    frame: int
    size: tuple[int, int]  # width, height
    shapes: tuple[Shape, ...]
    annotator: str = ""  # empty: the tool does not say
    date: str = ""


@dataclass(frozen=True)
class Task:
    """An image to be annotated, with what is drawn in beforehand."""

    file: str
    size: tuple[int, int]
    shapes: tuple[Shape, ...]


@dataclass(frozen=True)
class TaskSet:
    labels: tuple[str, ...]
    tasks: tuple[Task, ...]
    decides: bool  # whether each shape is decided about: gold or back
    image_url: str  # what stands before the names of images


class Tool(Protocol):
    """An annotation tool: a module with these functions."""

    def reads(self, path: Path) -> bool:
        """Whether the file, or the folder, is an export of this tool."""

    def read(self, path: Path) -> list[AnnotatedImage]: ...

    def write(self, out: Path, tasks: TaskSet) -> list[Path]: ...


def notes_of(text: str) -> dict[str, str]:
    """From «serial=m1 decision=gold»."""
    return dict(_NOTES.findall(text))


def notes_text(notes: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in notes.items())


def category_of(label: str) -> str:
    """The log's word: nothing is an empty category there."""
    return "" if label == NOTHING else label


@dataclass(frozen=True)
class Place:
    """Where in an export something stands. What is read there is checked, and refused with the place's name."""

    path: Path
    where: str

    def fail(self, what: str) -> UserError:
        return UserError(f"{self.path}, {printable(self.where)}: {what}")

    def numbers(self, *values: Any) -> list[float]:
        try:
            found = [float(value) for value in values]
        except (TypeError, ValueError):
            found = [float("nan")]
        if not np.isfinite(found).all():
            raise self.fail("its coordinates are no numbers; export it again.")
        return found

    def size(self, width: Any, height: Any) -> tuple[int, int]:
        found = self.numbers(width, height)
        return int(found[0]), int(found[1])

    def box(self, x1: Any, y1: Any, x2: Any, y2: Any) -> Box:
        """From two opposite corners, in whichever order they were drawn."""
        sides = self.numbers(x1, y1, x2, y2)
        left, right = sorted((sides[0], sides[2]))
        top, bottom = sorted((sides[1], sides[3]))
        if right <= left or bottom <= top:
            raise self.fail("a box has no area; correct or delete it.")
        return left, top, right - left, bottom - top

    def upright(self, rotation: Any) -> None:
        if self.numbers(rotation or 0)[0] != 0:
            raise self.fail("a box is rotated; draw it upright, or as a polygon.")

    def outline(self, points: Sequence[Sequence[Any]]) -> Points:
        found = [self.numbers(*point) for point in points]
        if len(found) < 3 or any(len(point) != 2 for point in found):
            raise self.fail("an outline has fewer than three points; correct or delete it.")
        return tuple((point[0], point[1]) for point in found)

    def unknown_kind(self, kind: str) -> UserError:
        return self.fail(
            f"a shape of the kind '{printable(kind)}' is neither box, polygon nor mask; draw it as one of them."
        )
