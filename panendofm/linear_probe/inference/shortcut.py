"""The verb `shortcut`: does the head look at the position box? Answers with the box and with it painted over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from panendofm.atlas import custom_samples
from panendofm.imaging.frame_filters.position_box import position_box_mask
from panendofm.imaging.images import open_image
from panendofm.linear_probe.heads.head_run import open_head
from panendofm.linear_probe.inference.predict import exclusive_head
from panendofm.runtime.console import say, table, track
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import write_json
from panendofm.scoring.statistics.paired_tests import mcnemar

FORMAT = 1


def painted_over(pixels: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """The picture [H, W, 3] with its position box filled from around it; None when there is no box."""
    mask = position_box_mask(pixels)
    if not mask.any():
        return None
    return np.asarray(cv2.inpaint(pixels, mask, 3, cv2.INPAINT_TELEA), np.uint8)


def shortcut(head_path: Path, data: Path, weights: str | None, out: Path, device: str) -> dict[str, Any]:
    """Recall of each class on pictures with a box, before and after painting; pictures without one stay as they are."""
    run = open_head(head_path, weights, device)
    exclusive_head(run.head, head_path)
    number = {name: i for i, name in enumerate(run.head.classes)}
    truth, before, after = [], [], []
    samples = custom_samples(data)
    for sample in track(samples, "pictures", len(samples), "images"):
        if len(sample.classes) != 1 or sample.classes[0] not in number:
            raise UserError(f"{sample.path}: its label {sample.classes} is none of the head's; leave it out.")
        picture = open_image(sample.path)
        painted = painted_over(np.asarray(picture))
        if painted is None:
            continue
        answers = run.answer(run.prepare([picture, Image.fromarray(painted)])).argmax(1).tolist()
        truth.append(number[sample.classes[0]])
        before.append(answers[0])
        after.append(answers[1])
    document = {
        "format": FORMAT,
        "pictures": len(samples),
        "with_box": len(truth),
        **_figures(run.head.classes, np.array(truth), np.array(before), np.array(after)),
    }
    write_json(out, document)
    _say(document, out)
    return document


def _figures(
    classes: list[str], truth: NDArray[np.int64], before: NDArray[np.int64], after: NDArray[np.int64]
) -> dict[str, Any]:
    if not len(truth):
        return {"right_with_box": None, "right_painted_over": None, "changed_answers": 0, "p": None, "classes": {}}
    right, still = before == truth, after == truth
    rows = {}
    for c, name in enumerate(classes):
        inside = truth == c
        if inside.any():
            rows[name] = {
                "pictures": int(inside.sum()),
                "with_box": float(right[inside].mean()),
                "painted_over": float(still[inside].mean()),
            }
    return {
        "right_with_box": float(right.mean()),
        "right_painted_over": float(still.mean()),
        "changed_answers": int((before != after).sum()),
        "p": mcnemar(int((right & ~still).sum()), int((~right & still).sum())),
        "classes": rows,
    }


def _say(document: dict[str, Any], out: Path) -> None:
    rows = [
        [name, str(r["pictures"]), f"{r['with_box']:.3f}", f"{r['painted_over']:.3f}"]
        for name, r in document["classes"].items()
    ]
    if rows:
        table("recall of pictures with a position box", ["class", "pictures", "with box", "painted over"], rows)
        right, still = document["right_with_box"], document["right_painted_over"]
        say(
            f"{document['with_box']} of {document['pictures']} pictures have a box; right {right:.3f} with it, "
            f"{still:.3f} without (McNemar p = {document['p']:.3g})"
        )
    else:
        say(f"none of {document['pictures']} pictures has a position box")
    say(f"result: {out}")
