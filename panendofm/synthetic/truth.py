"""What is true of a synthetic corpus: the schema of its truth.json.

`write_truth` stores a `Truth` as JSON with the field names below; `read_truth` gives it back. Paths are relative to the
corpus folder and use "/". Frames count from 0; a range names its first and its last frame, both included. Boxes are
[left, top, right, bottom] in pixels, right and bottom excluded.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from panendofm.records.documents import read_document, write_document

TRUTH_NAME = "truth.json"

Box = tuple[int, int, int, int]


@dataclass(frozen=True)
class FieldOfView:
    """The part of the image that shows the gut: a shape inside `box`; all outside is the black border."""

    shape: str  # "rectangle": the whole box; "octagon": the box less its corners; "circle": the circle within the box
    box: Box
    corner_px: int = 0  # octagon: length of the cut along each side
    circle: tuple[float, float, float] | None = None  # circle: center x, center y, radius

    def mask(self, height: int, width: int) -> NDArray[np.bool_]:
        """True inside the field of view, [height, width]; a pixel belongs to it when its middle does."""
        x = np.arange(width)[None, :] + 0.5
        y = np.arange(height)[:, None] + 0.5
        left, top, right, bottom = self.box
        inside = (x > left) & (x < right) & (y > top) & (y < bottom)
        if self.shape == "octagon":
            to_side = np.minimum(x - left, right - x)
            to_end = np.minimum(y - top, bottom - y)
            inside &= to_side + to_end > self.corner_px
        elif self.shape == "circle":
            assert self.circle is not None
            inside &= (x - self.circle[0]) ** 2 + (y - self.circle[1]) ** 2 < self.circle[2] ** 2
        return np.asarray(inside)


@dataclass(frozen=True)
class Geometry:
    """How an image is laid out."""

    width: int
    height: int
    field_of_view: FieldOfView
    text_boxes: tuple[Box, ...] = ()  # all burned-in text lies in these; they lie outside the field of view
    position_box: Box | None = None  # the teal box; it covers the lower left of the image and of the field of view

    def visible_mask(self) -> NDArray[np.bool_]:
        """The field of view less the teal box, [height, width]."""
        mask = self.field_of_view.mask(self.height, self.width)
        if self.position_box is not None:
            left, top, right, bottom = self.position_box
            mask[top:bottom, left:right] = False
        return mask


@dataclass(frozen=True)
class Span:
    """A range of frames and what they are: a scene's kind, or a fault of the image."""

    what: str  # faults: "dark", "washed_out", "blurred", "frozen"
    first: int
    last: int


@dataclass(frozen=True)
class Source:
    """A video file, or a folder of images that were taken with one device."""

    path: str
    corpus: str  # "colonoscopicds", "ldpolypvideo", "ers", "ri-vce", "endofm-pretrain"
    media: str  # "video" or "images"; the images of a folder in the order of their names are its frames 0, 1, …
    codec: str  # "h264", "mjpeg", "mpeg4", "png", "jpg"
    geometry: str  # a key of Truth.geometries
    frames: int
    fps: float  # mean for a variable frame rate; 0 for images
    variable_frame_rate: bool
    keyframe_interval: int  # in frames; 0 for images
    scenes: tuple[Span, ...]  # "what" is a Kvasir class name, "colon", "small-bowel" or "abdomen"
    faults: tuple[Span, ...]


@dataclass(frozen=True)
class EvaluationImage:
    """An image of the labeled set."""

    path: str
    label: str
    geometry: str
    group: int | None  # images with the same number show one scene a moment apart


@dataclass(frozen=True)
class Segmented:
    """An image of the segmented set; its mask has the same name in masks/."""

    path: str
    kind: str  # of the scene
    group: str  # images of one group show one scene a moment apart
    width: int
    height: int
    boxes: tuple[Box, ...] = ()  # tight, one a polyp; none: nothing to find


@dataclass(frozen=True)
class Leak:
    """Frames of the pretraining corpora that show an evaluation image."""

    path: str  # a video, or one image file
    evaluation_image: str
    transformation: str  # "re_encoded", "resized", "border_cropped", "brightness_shifted"
    first: int  # frame range in the video; 0 and 0 for an image file
    last: int
    first_seconds: float
    last_seconds: float


@dataclass(frozen=True)
class Duplicate:
    """A file whose content is that of another one."""

    path: str
    of: str
    how: str  # "byte_copy", "re_encoded" (same size) or "resized" (and re-encoded)
    frames: int  # frame i of `path` is frame i of `of`, for this many frames


@dataclass(frozen=True)
class Defect:
    """A file that can't be read as what its name says, or not to its end."""

    path: str
    what: str  # "truncated", "no_index", "zero_bytes", "wrong_extension"
    detail: str  # what the content is


@dataclass(frozen=True)
class Imbalance:
    """How unevenly the scenes of the sources are spread, where that is planted."""

    dull: str
    rare: tuple[str, ...]
    frames: dict[str, int]  # by kind of scene, in all sources


@dataclass(frozen=True)
class Truth:
    """Everything that is known of one synthetic corpus."""

    size: str
    seed: int
    geometries: dict[str, Geometry]
    sources: tuple[Source, ...]  # all readable ones, copies included; files with defects are not listed here
    evaluation: tuple[EvaluationImage, ...]
    segmented: tuple[Segmented, ...]
    leaks: tuple[Leak, ...]
    duplicates: tuple[Duplicate, ...]
    defects: tuple[Defect, ...]
    imbalance: Imbalance | None = None
    format: Literal[2] = 2

    def geometry_of(self, item: Source | EvaluationImage) -> Geometry:
        return self.geometries[item.geometry]


def write_truth(truth: Truth, directory: Path) -> None:
    write_document(directory / TRUTH_NAME, truth)


def read_truth(directory: Path | str) -> Truth:
    """Read a corpus's truth.json."""
    return read_document(Truth, Path(directory) / TRUTH_NAME, "the truth of a synthetic corpus", "synthesize it anew")
