"""masks.csv, detections.csv and PNGs in the form that `challenge score` reads, for predictions and for the truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panendofm.imaging.images import is_image
from panendofm.linear_probe.dense.data.images import DenseImage, Truth
from panendofm.linear_probe.dense.predictor import Found
from panendofm.runtime.csv_files import csv_text
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_bytes, write_text

MASKS_NAME = "masks.csv"
DETECTIONS_NAME = "detections.csv"
_OF_TRUTH = ("group", "center", "width", "height")


def png_of(mask: NDArray[np.bool_]) -> bytes:
    done, content = cv2.imencode(".png", np.where(mask, 255, 0).astype(np.uint8))
    if not done:
        raise UserError("a mask could not be written as PNG; it may be too large.")
    return content.tobytes()


def mask_name(name: str, class_mark: str = "") -> str:
    """Where the mask of an image lies; the image's ending is left out."""
    stem = PurePosixPath(name).with_suffix("") if is_image(name) else PurePosixPath(name)
    return f"masks/{stem}{class_mark}.png"


class FindingsWriter:
    """Collects the findings of images and writes them into one folder; a mask lies there as soon as it is known."""

    def __init__(self, folder: Path, classes: Sequence[str], truth: bool = False) -> None:
        self.folder = folder
        self.classes = tuple(classes)
        self.truth = truth
        self._masks: list[list[Any]] = []
        self._boxes: list[list[Any]] = []

    def add(
        self,
        name: str,
        masks: NDArray[np.bool_] | None,
        boxes: Sequence[Found],
        extra: Sequence[Any] = (),
        frame: int = 0,
    ) -> None:
        """`name` is the image's, unique; `masks` [K, H, W], None where no segmentation is known."""
        tail = list(extra) if self.truth else []
        if masks is not None:
            shown = [number for number in range(len(self.classes)) if masks[number].any()]
            for number in shown:
                several = f".{self.classes[number]}" if len(self.classes) > 1 else ""
                file = mask_name(name, several)
                write_bytes(self.folder / file, png_of(masks[number]))
                self._masks.append([name, frame, self.classes[number], file, "", *tail])
            if not shown:
                self._masks.append([name, frame, "", "", "", *tail])
        for number, box, sure in boxes:
            numbers = [f"{value:.2f}".rstrip("0").rstrip(".") for value in box]
            confidence = [] if self.truth else [f"{sure:.6f}"]
            self._boxes.append([name, frame, self.classes[number], *confidence, *numbers, *tail])
        if not boxes:
            self._boxes.append([name, frame, "", *([] if self.truth else [""]), "", "", "", "", *tail])

    def finish(self) -> None:
        tail = _OF_TRUTH if self.truth else ()
        confidence = () if self.truth else ("confidence",)
        if self._masks:
            columns = ("file", "frame", "category", "mask", "polygon", *tail)
            write_text(self.folder / MASKS_NAME, csv_text(columns, self._masks))
        columns = ("file", "frame", "category", *confidence, "x", "y", "w", "h", *tail)
        write_text(self.folder / DETECTIONS_NAME, csv_text(columns, self._boxes))


def truth_findings(truth: Truth) -> list[Found]:
    return [(number, box, 1.0) for number, boxes in enumerate(truth.boxes) for box in boxes]


def truth_extra(image: DenseImage, group: int) -> list[Any]:
    # Padded, so that groups sort as their numbers do and are drawn by the same random numbers.
    return [f"g{group:06d}", image.center or "", image.width, image.height]
