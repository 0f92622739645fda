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


def outlines_of(mask: Mask) -> list[Points]:
    """The outer borders of its parts."""
    found, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [tuple((float(x), float(y)) for x, y in border[:, 0]) for border in found if len(border) > 2]


def category_of(label: str) -> str:
    """The log's word: nothing is an empty category there."""
    return "" if label == NOTHING else label


def label_of(category: str) -> str:
    return category or NOTHING


def corner_box(path: Path, where: str, x1: Any, y1: Any, x2: Any, y2: Any) -> Box:
    """From two opposite corners, in whichever order they were drawn."""
    sides = numbers(path, where, (x1, y1, x2, y2))
    left, right = sorted((sides[0], sides[2]))
    top, bottom = sorted((sides[1], sides[3]))
    if right <= left or bottom <= top:
        raise UserError(f"{path}, {printable(where)}: a box has no area; correct or delete it.")
    return left, top, right - left, bottom - top


def numbers(path: Path, where: str, values: Sequence[Any]) -> list[float]:
    try:
        found = [float(value) for value in values]
    except (TypeError, ValueError):
        found = [float("nan")]
    if not np.isfinite(found).all():
        raise UserError(f"{path}, {printable(where)}: its coordinates are no numbers; export it again.")
    return found


def outline(path: Path, where: str, points: Sequence[Sequence[Any]]) -> Points:
    found = [numbers(path, where, point) for point in points]
    if len(found) < 3 or any(len(point) != 2 for point in found):
        raise UserError(f"{path}, {printable(where)}: an outline has fewer than three points; correct or delete it.")
    return tuple((point[0], point[1]) for point in found)


def refuse_shape(path: Path, where: str, kind: str) -> UserError:
    return UserError(
        f"{path}, {printable(where)}: a shape of the kind '{printable(kind)}' is neither box, polygon nor mask; "
        "draw it as one of them."
    )
