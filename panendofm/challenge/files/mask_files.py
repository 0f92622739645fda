"""The masks that rows of a file name or draw."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from panendofm.challenge.files.finding_model import Finding, FindingsFile, Frame
from panendofm.scoring.masks import Mask

# JPEG blurs edges: its masks are cut in the middle. A PNG must say 0 or 255.
_JPEG = {".jpg", ".jpeg"}


def read_mask(file: FindingsFile, finding: Finding) -> Mask:
    assert finding.mask is not None
    path: Path = finding.mask
    try:
        with Image.open(path) as image:
            values = np.asarray(image.convert("L"))
    except FileNotFoundError:
        raise file.fail(finding.line, f"the mask {path} does not exist; check the path.") from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise file.fail(finding.line, f"the mask {path} cannot be read ({error}); replace it.") from None
    if path.suffix.lower() not in _JPEG and not np.isin(values, (0, 255)).all():
        odd = int(values[~np.isin(values, (0, 255))][0])
        raise file.fail(finding.line, f"the mask {path} holds the value {odd}; a mask has 0 and 255 only.")
    return np.asarray(values >= 128)


def mask_of(
    file: FindingsFile, frame: Frame, category: str, size: tuple[int, int] | None
) -> tuple[Mask | None, tuple[int, int] | None]:
    """The union of a category's masks in a frame and the image's size; None when it has none."""
    union: Mask | None = None
    for finding in frame.findings:
        if finding.category != category:
            continue
        mask = finding_mask(file, finding, size)
        size = (mask.shape[1], mask.shape[0])
        union = mask if union is None else union | mask
    return union, size


def finding_mask(file: FindingsFile, finding: Finding, size: tuple[int, int] | None) -> Mask:
    """The mask of one row, in the size of its image where that is known."""
    mask = read_mask(file, finding) if finding.mask is not None else _polygon(file, finding, size)
    here = (mask.shape[1], mask.shape[0])
    if size is not None and here != size:
        raise file.fail(
            finding.line,
            f"the mask is {here[0]} × {here[1]}, the image {size[0]} × {size[1]}; write the original size.",
        )
    return mask


def _polygon(file: FindingsFile, finding: Finding, size: tuple[int, int] | None) -> Mask:
    if size is None:
        raise file.fail(finding.line, "a polygon needs the image's size; add width and height to the truth.")
    canvas = np.zeros((size[1], size[0]), np.uint8)
    points = np.array(finding.polygon, np.float64).reshape(-1, 2)
    cv2.fillPoly(canvas, [np.round(points).astype(np.int32)], 1)
    return canvas.astype(bool)
