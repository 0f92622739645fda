"""The verb `shortcut`: does the head look at the position box? Answers with the box and with it painted over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from panendofm.atlas import custom_samples
from panendofm.imaging.frame_filters.position_box import position_box_mask
from panendofm.imaging.images import open_image
from panendofm.linear_probe.config import ShortcutConfig
from panendofm.linear_probe.heads.head_run import open_exclusive_head
from panendofm.records.documents import write_document
from panendofm.reports.numbers import number
from panendofm.runtime.console import say, table, track
from panendofm.runtime.errors import UserError
from panendofm.scoring.statistics.paired_tests import mcnemar


def painted_over(pixels: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """The image [H, W, 3] with its position box filled from around it; None when there is no box."""
    mask = position_box_mask(pixels)
    if not mask.any():
        return None
    return np.asarray(cv2.inpaint(pixels, mask, 3, cv2.INPAINT_TELEA), np.uint8)


@dataclass(frozen=True)
class ClassRecall:
    """Of a class's images with a box: with it, and with it painted over."""

    images: int
    with_box: float
    painted_over: float


@dataclass(frozen=True)
class ShortcutResults:
    """Shares of right answers on images with a position box; None where no image has one."""

    images: int
    with_box: int
    right_with_box: float | None = None
    right_painted_over: float | None = None
    changed_answers: int = 0
    p: float | None = None  # McNemar's test of the two shares
    classes: dict[str, ClassRecall] = field(default_factory=dict)
    format: Literal[1] = 1


def shortcut(head_path: Path, data: Path, config: ShortcutConfig) -> ShortcutResults:
    """Recall of each class on images with a box, before and after painting; images without one stay as they are."""
    run = open_exclusive_head(head_path, config)
    classes = run.head.info.classes
    class_number = {name: i for i, name in enumerate(classes)}
    truth, before, after = [], [], []
    samples = custom_samples(data)
    for sample in track(samples, "images", len(samples), "images"):
        if len(sample.classes) != 1 or sample.classes[0] not in class_number:
            raise UserError(f"{sample.path}: its label {sample.classes} is none of the head's; leave it out.")
        image = open_image(sample.path)
        painted = painted_over(np.asarray(image))
        if painted is None:
            continue
        answers = run.answer(run.prepare([image, Image.fromarray(painted)])).argmax(1).tolist()
        truth.append(class_number[sample.classes[0]])
        before.append(answers[0])
        after.append(answers[1])
    results = _compare(len(samples), classes, np.array(truth), np.array(before), np.array(after))
    write_document(config.out, results)
    _say(results, config.out)
    return results


def _compare(
    images: int, classes: list[str], truth: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> ShortcutResults:
    if not len(truth):
        return ShortcutResults(images, 0)
    right = before == truth
    still = after == truth
    rows = {}
    for c, name in enumerate(classes):
        inside = truth == c
        if inside.any():
            rows[name] = ClassRecall(int(inside.sum()), float(right[inside].mean()), float(still[inside].mean()))
    return ShortcutResults(
        images=images,
        with_box=len(truth),
        right_with_box=float(right.mean()),
        right_painted_over=float(still.mean()),
        changed_answers=int((before != after).sum()),
        p=mcnemar(int((right & ~still).sum()), int((~right & still).sum())),
        classes=rows,
    )


def _say(results: ShortcutResults, out: str) -> None:
    rows = [
        [name, str(row.images), number(row.with_box), number(row.painted_over)] for name, row in results.classes.items()
    ]
    if rows:
        table("recall of images with a position box", ["class", "images", "with box", "painted over"], rows)
        say(
            f"{results.with_box} of {results.images} images have a box; right {number(results.right_with_box)} with "
            f"it, {number(results.right_painted_over)} without (McNemar p = {results.p:.3g})"
        )
    else:
        say(f"none of {results.images} images has a position box")
    say(f"result: {out}")
