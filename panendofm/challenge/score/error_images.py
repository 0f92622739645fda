"""The errors worth looking at: the surest wrong answers, the worst misses and false alarms, with boxes drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.finding_model import Finding, Frame
from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.files.names import Key
from panendofm.challenge.files.submissions import MISSING, Answers, Truth
from panendofm.challenge.score.page import GALLERY, image
from panendofm.imaging.images import IMAGE_SUFFIXES
from panendofm.scoring.detection.boxes import box_iou

Item = tuple[bytes | None, str]
_TRUE, _TOLD = "#2e7d32", "#c62828"


def find_image(folder: Path | None, file: str) -> Path | None:
    """A file of the submission below the folder of images: by its path, else by its name."""
    if folder is None:
        return None
    for candidate in (folder / file, folder / Path(file).name):
        if candidate.is_file():
            return candidate
    stem = Path(file).stem
    return next((p for s in sorted(IMAGE_SUFFIXES) if (p := folder / f"{stem}{s}").is_file()), None)


def _read(folder: Path | None, file: str, boxes: list[tuple[list[float], str]] | None = None) -> bytes | None:
    path = find_image(folder, file)
    return image(path, boxes or ()) if path is not None else None


def label_errors(truth: Truth, answers: Answers, images: Path | None) -> list[Item]:
    """Without images there is nothing to look at: the captions alone say little that confusion.csv doesn't."""
    if images is None:
        return []
    wrong = np.flatnonzero((answers.label != truth.label) & (answers.label != MISSING))
    order = wrong[np.argsort(-answers.confidence[wrong], kind="stable")][:GALLERY]
    return [
        (
            _read(images, truth.files[i]),
            f"{truth.classes[truth.label[i]]}, answered {truth.classes[answers.label[i]]} "
            f"({answers.confidence[i]:.2f}): {Path(truth.files[i]).name}",
        )
        for i in order
    ]


def _table(findings: list[Finding]) -> NDArray[np.float64]:
    return np.array([f.box for f in findings], np.float64).reshape(-1, 4)


def box_errors(
    frames: FrameSet, answers: Mapping[Key, Frame], classes: tuple[str, ...], images: Path | None, confidence: float
) -> list[Item]:
    """Frames with the most area missed or the surest false box; truth green, told red."""
    if images is None:
        return []
    ranked: list[tuple[float, str, Frame, Frame]] = []
    for key, true in zip(frames.keys, frames.frames, strict=True):
        told = answers[key]
        for name in classes:
            own = [f for f in told.findings if f.category == name and f.confidence >= confidence and f.box]
            real = [f for f in true.findings if f.category == name and f.box]
            overlap = box_iou(_table(real), _table(own))
            missed = sum(1 for row in overlap if not len(row) or row.max() < 0.5)
            false = [f.confidence for f, column in zip(own, overlap.T, strict=True) if column.max(initial=0) < 0.5]
            if missed or false:
                what = ", ".join(
                    part
                    for part in (f"{missed} missed" if missed else "", f"{len(false)} false" if false else "")
                    if part
                )
                ranked.append((missed + sum(false), f"{name}: {what}; {Path(true.file).name}", true, told))
    ranked.sort(key=lambda item: -item[0])
    return [
        (
            _read(
                images,
                true.file,
                [(list(f.box), _TRUE) for f in true.findings if f.box]
                + [(list(f.box), _TOLD) for f in told.findings if f.box and f.confidence >= confidence],
            ),
            caption,
        )
        for _, caption, true, told in ranked[:GALLERY]
    ]
