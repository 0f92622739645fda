"""What is true of a synthetic corpus: the schema of its truth.json.

`write_truth` stores a `Truth` as JSON with the field names below; `read_truth` gives it back. Paths are relative to the
corpus folder and use "/". Frames count from 0; a range names its first and its last frame, both included. Boxes are
[left, top, right, bottom] in pixels, right and bottom excluded.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panendofm.runtime.errors import UserError
from panendofm.runtime.files import read_json_object, write_json

TRUTH_NAME = "truth.json"
FORMAT = 2

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
    format: int = field(default=FORMAT)

    def geometry_of(self, item: Source | EvaluationImage) -> Geometry:
        return self.geometries[item.geometry]


def write_truth(truth: Truth, directory: Path) -> None:
    write_json(directory / TRUTH_NAME, dataclasses.asdict(truth))


def read_truth(directory: Path | str) -> Truth:
    """Read a corpus's truth.json."""
    path = Path(directory) / TRUTH_NAME
    content: dict[str, Any] = read_json_object(path)
    if content.get("format") != FORMAT:
        raise UserError(f"{path} has format {content.get('format')}, this version reads {FORMAT}; synthesize it anew.")
    return Truth(
        size=content["size"],
        seed=content["seed"],
        geometries={name: _geometry(values) for name, values in content["geometries"].items()},
        sources=tuple(_source(values) for values in content["sources"]),
        evaluation=tuple(EvaluationImage(**values) for values in content["evaluation"]),
        segmented=tuple(
            Segmented(**{**values, "boxes": tuple(_box(box) for box in values["boxes"])})
            for values in content["segmented"]
        ),
        leaks=tuple(Leak(**values) for values in content["leaks"]),
        duplicates=tuple(Duplicate(**values) for values in content["duplicates"]),
        defects=tuple(Defect(**values) for values in content["defects"]),
        imbalance=_imbalance(content.get("imbalance")),
    )


def _box(values: list[int]) -> Box:
    left, top, right, bottom = values
    return (left, top, right, bottom)


def _imbalance(values: dict[str, Any] | None) -> Imbalance | None:
    return None if values is None else Imbalance(values["dull"], tuple(values["rare"]), values["frames"])


def _geometry(values: dict[str, Any]) -> Geometry:
    view = values["field_of_view"]
    circle = tuple(view["circle"]) if view["circle"] is not None else None
    return Geometry(
        width=values["width"],
        height=values["height"],
        field_of_view=FieldOfView(view["shape"], _box(view["box"]), view["corner_px"], circle),
        text_boxes=tuple(_box(box) for box in values["text_boxes"]),
        position_box=_box(values["position_box"]) if values["position_box"] is not None else None,
    )


def _source(values: dict[str, Any]) -> Source:
    spans = {name: tuple(Span(**span) for span in values[name]) for name in ("scenes", "faults")}
    return Source(**{**values, **spans})
