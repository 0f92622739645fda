"""The errors worth looking at: the surest wrong answers, the worst misses and false alarms, with boxes drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw

from panendofm.challenge.files.finding_model import Box, Frame
from panendofm.challenge.files.frames import FindingPair
from panendofm.challenge.files.mask_files import mask_of
from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.score.subsets import Case
from panendofm.imaging.dicom import DICOM_SUFFIXES, read_dicom_frame
from panendofm.imaging.images import IMAGE_SUFFIXES, UnreadableImageError, open_image, thumbnail
from panendofm.reports import PageImage
from panendofm.scoring.detection.boxes import box_iou

GALLERY = 20
_SIDE_PX = 240
_TRUE_COLOR = "#2e7d32"
_TOLD_COLOR = "#c62828"


def find_image(folder: Path, file: str) -> Path | None:
    """A file of the submission below the folder of images: by its path, else by its name."""
    for candidate in (folder / file, folder / Path(file).name):
        if candidate.is_file():
            return candidate
    stem = Path(file).stem
    return next((p for s in sorted(IMAGE_SUFFIXES | DICOM_SUFFIXES) if (p := folder / f"{stem}{s}").is_file()), None)


def _image(folder: Path, file: str, frame: int) -> Image.Image | None:
    """An image, or a frame of a DICOM file."""
    path = find_image(folder, file)
    if path is None:
        return None
    try:
        if path.suffix.lower() in DICOM_SUFFIXES:
            return Image.fromarray(read_dicom_frame(path, frame=frame))
        return open_image(path)
    except UnreadableImageError:
        return None


def _thumbnail(folder: Path, file: str, frame: int, boxes: Sequence[tuple[Box, str]] = ()) -> bytes | None:
    """A small JPEG, with boxes drawn in; None when there is no file or it can't be read."""
    image = _image(folder, file, frame)
    if image is None:
        return None
    draw = ImageDraw.Draw(image)
    for (x, y, w, h), color in boxes:
        draw.rectangle((x, y, x + w, y + h), outline=color, width=max(2, image.width // 160))
    return thumbnail(image, _SIDE_PX)


def label_errors(truth: Truth, answers: Answers, images: Path | None) -> list[PageImage]:
    """Without images there is nothing to look at: the captions alone say little that confusion.csv doesn't."""
    if images is None:
        return []
    wrong = np.flatnonzero((answers.label != truth.label) & (answers.label != MISSING))
    surest = wrong[np.argsort(-answers.confidence[wrong], kind="stable")][:GALLERY]
    errors = []
    for i in surest:
        true = truth.classes[truth.label[i]]
        answer = truth.classes[answers.label[i]]
        caption = f"{true}, answered {answer} ({answers.confidence[i]:.2f}): {Path(truth.files[i]).name}"
        errors.append(PageImage(_thumbnail(images, truth.files[i], truth.keys[i][1]), caption))
    return errors


def box_errors(pair: FindingPair, images: Path | None, confidence: float) -> list[PageImage]:
    """Frames with the most missed boxes and the surest false ones; truth green, told red."""
    if images is None:
        return []
    found: list[tuple[float, str, Frame, Frame]] = []
    for true, told in zip(pair.frames.frames, pair.told, strict=True):
        for category in pair.classes:
            missed, false = _errors(category, true, told, confidence)
            parts = [f"{missed} missed"] if missed else []
            parts += [f"{len(false)} false"] if false else []
            if parts:
                found.append(
                    (missed + sum(false), f"{category}: {', '.join(parts)}; {Path(true.file).name}", true, told)
                )
    found.sort(key=lambda errors: -errors[0])
    errors = []
    for _, caption, true, told in found[:GALLERY]:
        boxes = [*_drawn(true, _TRUE_COLOR), *_drawn(told, _TOLD_COLOR, confidence)]
        errors.append(PageImage(_thumbnail(images, true.file, true.frame, boxes), caption))
    return errors


def _errors(category: str, true: Frame, told: Frame, confidence: float) -> tuple[int, list[float]]:
    """How many boxes were missed, and the confidences of false ones."""
    real = [f.box for f in true.findings if f.category == category and f.box]
    own = [f for f in told.findings if f.category == category and f.box and f.confidence >= confidence]
    overlap = box_iou(real, [f.box for f in own if f.box])
    missed = int((overlap.max(axis=1, initial=0) < 0.5).sum())
    return missed, [f.confidence for f, best in zip(own, overlap.max(axis=0, initial=0), strict=True) if best < 0.5]


def _drawn(frame: Frame, color: str, confidence: float = 0.0) -> list[tuple[Box, str]]:
    return [(f.box, color) for f in frame.findings if f.box and f.confidence >= confidence]


def label_case(images: Path, case: Case) -> bytes | None:
    return _thumbnail(images, case.file, case.frame)


def box_case(pair: FindingPair, images: Path, confidence: float, case: Case) -> bytes | None:
    """Truth green, told red."""
    true, told = _sides(pair, case)
    boxes = [*_drawn(true, _TRUE_COLOR), *_drawn(told, _TOLD_COLOR, confidence)]
    return _thumbnail(images, case.file, case.frame, boxes)


def mask_case(pair: FindingPair, images: Path, case: Case) -> bytes | None:
    """The outlines of both sides, truth green, told red; what was told as points or boxes as dots at their centers."""
    image = _image(images, case.file, case.frame)
    if image is None:
        return None
    canvas = np.array(image)
    true, told = _sides(pair, case)
    for file, frame, color in ((pair.truth, true, _TRUE_COLOR), (pair.prediction, told, _TOLD_COLOR)):
        if file.kind != "segmentation":
            for x, y in filter(None, (finding.center for finding in frame.findings)):
                width = max(2, canvas.shape[1] // 80)
                cv2.circle(canvas, (round(x), round(y)), width, ImageColor.getrgb(color), -1)
            continue
        for category in pair.classes:
            mask, _ = mask_of(file, frame, category, image.size)
            if mask is not None:
                _draw_outline(canvas, mask, color)
    return thumbnail(canvas, _SIDE_PX)


def _draw_outline(canvas: NDArray[np.uint8], mask: NDArray[np.bool_], color: str) -> None:
    outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    width = max(2, canvas.shape[1] // 160)
    cv2.drawContours(canvas, outlines, -1, ImageColor.getrgb(color), width)


def _sides(pair: FindingPair, case: Case) -> tuple[Frame, Frame]:
    frames = pair.frames.frames
    number = next(i for i, frame in enumerate(frames) if (frame.file, frame.frame) == (case.file, case.frame))
    return frames[number], pair.told[number]
