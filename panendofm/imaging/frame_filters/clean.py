"""One image as training frames are: cut to its field of view, without the position box, text painted over.

What `data_pipeline` does with a single image, for stages that show images to a network that was trained so: the box
stands on some classes and not on others, and a network that sees it may seem to know more than it does.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from threading import Lock

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.frame_filters.config import FieldOfViewConfig, TextConfig
from panendofm.imaging.frame_filters.layout import Layout, find_layout, find_text_places
from panendofm.imaging.image_hash import perceptual_hash
from panendofm.runtime.files import write_bytes

Image = NDArray[np.uint8]  # [H, W, 3] RGB

# What features of cleaned images are stored under: change it when an image would be cleaned otherwise than before.
VERSION = "3"
# As long as the sides of frames in shards.
LONGEST_SIDE_PX = 512

# A smaller one may be a lit patch of a dark image, whose outline says little.
_HASHED_AREA = 0.25

# The text detector is one for the process, and is set anew for each image.
_detector = Lock()


def hashed_layout(rgb: Image) -> Layout | None:
    """The layout of one image, where its field of view is large enough to be sure of."""
    return find_layout([rgb], FieldOfViewConfig(min_area=_HASHED_AREA), LONGEST_SIDE_PX, mask_position_box=True)


def layout_hash(rgb: Image, layout: Layout | None) -> NDArray[np.uint8]:
    """The perceptual hash of an image's field of view alone: its border and position box would drive it otherwise."""
    return perceptual_hash(rgb if layout is None else layout.blank(layout.crop(rgb)))


def field_of_view_hash(rgb: Image) -> NDArray[np.uint8]:
    return layout_hash(rgb, hashed_layout(rgb))


class Cleaner:
    """Cleans single images. What text it finds is remembered in `memory`, a folder, by the content of the image.

    Looking for text takes most of the time; with the memory an image that comes again takes a few milliseconds.
    """

    def __init__(self, memory: Path | None = None) -> None:
        self._memory = None if memory is None else memory / f"text-{VERSION}"

    def __call__(self, rgb: Image) -> Image:
        """The cleaned image; one without a field of view stays as it is."""
        layout = _layout_of(rgb)
        if layout is None:
            return rgb
        self._find_text(layout, rgb)
        return layout.without_text(layout.blank(layout.crop(rgb)), TextConfig())[0]

    def _find_text(self, layout: Layout, rgb: Image) -> None:
        shape = (layout.out_size[1], layout.out_size[0])
        digest = hashlib.sha256(repr(rgb.shape).encode() + rgb.tobytes()).hexdigest()
        path = None if self._memory is None else self._memory / digest[:2] / f"{digest}.png"
        if path is not None and path.is_file():
            mask = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_GRAYSCALE)
            if mask is not None and mask.shape == shape:
                layout.text = np.asarray(mask, np.uint8) if mask.any() else None
                return
        with _detector:
            find_text_places(layout, [rgb], TextConfig())
        if path is not None:
            found = np.zeros(shape, np.uint8) if layout.text is None else layout.text
            write_bytes(path, cv2.imencode(".png", found)[1].tobytes())


def _layout_of(rgb: Image) -> Layout | None:
    return find_layout([rgb], FieldOfViewConfig(), LONGEST_SIDE_PX, mask_position_box=True)
