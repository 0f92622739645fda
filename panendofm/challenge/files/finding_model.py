"""What stands in a file of boxes or masks: frames and their findings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from panendofm.challenge.files.names import Key
from panendofm.challenge.files.traits import Trait
from panendofm.runtime.errors import UserError

Kind = Literal["detection", "segmentation", "localization"]
TaskKind = Literal["classification", "detection", "segmentation", "localization"]
Role = Literal["truth", "prediction"]
Box = tuple[float, float, float, float]
Point = tuple[float, float]


@dataclass(frozen=True)
class Finding:
    """Something in a frame: a box, a mask (a file, or a polygon x1 y1 x2 y2 …), or a point."""

    line: int
    category: str
    confidence: float = 1.0
    box: Box | None = None
    mask: Path | None = None
    polygon: tuple[float, ...] | None = None
    point: Point | None = None
    object: str = ""
    histology: str = ""
    size_mm: float | None = None

    @property
    def center(self) -> Point | None:
        """Of a box, or the point itself."""
        if self.box is None:
            return self.point
        x, y, w, h = self.box
        return x + w / 2, y + h / 2


@dataclass(frozen=True)
class Frame:
    """A image, or a frame of a video. Without findings it was looked at and nothing was found."""

    file: str
    frame: int
    line: int
    findings: tuple[Finding, ...]
    size: tuple[int, int] | None = None  # width, height
    group: str = ""
    patient: str = ""
    center: str = ""
    time_ms: float | None = None
    traits: tuple[Trait, ...] = ()


@dataclass(frozen=True)
class FindingsFile:
    path: Path
    kind: Kind
    frames: dict[Key, Frame]
    classes: tuple[str, ...]  # that it names, or that it says it has
    declared: bool = False  # the classes stand in the file itself

    def fail(self, line: int, what: str) -> UserError:
        return UserError(f"{self.path}, {'entry' if self.path.suffix == '.json' else 'line'} {line}: {what}")


def check_box(fail: Callable[[str], UserError], box: Box) -> None:
    if box[2] <= 0 or box[3] <= 0:
        raise fail(f"the box has the size {box[2]:g} × {box[3]:g}; width and height must be above 0.")
