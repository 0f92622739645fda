"""Exports of annotation tools → acts of the log: independent, initial, arbitration, review.

An act's serial is a checksum of what it says, so that an export that is read twice adds nothing. What somebody changed
in a tool after it was read is refused: the log only grows.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from panendofm.challenge.annotate import cvat, label_studio, labelme
from panendofm.challenge.annotate.shapes import DECISION, SERIAL, AnnotatedImage, Mask, Shape, Tool
from panendofm.challenge.files.annotations import COLUMNS, Act, Log
from panendofm.challenge.files.names import Key, image_name
from panendofm.challenge.waiting import candidates_waiting
from panendofm.runtime.errors import UserError
from panendofm.runtime.files import make_directory, write_bytes
from panendofm.runtime.names import printable
from panendofm.scoring.detection.boxes import box_iou
from panendofm.scoring.masks import pixel_counts

TOOLS: Mapping[str, Tool] = {"cvat": cvat, "labelstudio": label_studio, "labelme": labelme}
MASKS = "masks"  # beside the log
# What is the same drawing: tools round, and outlines lose a little at their borders.
_SAME_BOX, _SAME_MASK = 0.99, 0.95


def read_exports(paths: Iterable[Path]) -> list[AnnotatedImage]:
    """Of files and folders; which tool wrote one its content says."""
    found: list[AnnotatedImage] = []
    for path in paths:
        if not path.exists():
            raise UserError(f"cannot read {path}: there is no such export; check the path.")
        tool = next((tool for tool in TOOLS.values() if tool.reads(path)), None)
        if tool is None:
            raise UserError(
                f"{path}: this is no export of CVAT (XML 1.1), Label Studio (JSON) or LabelMe (JSON); export it as one."
            )
        found += tool.read(path)
    return found


@dataclass(frozen=True)
class _Source:
    """One person's annotation of one image, as the log names both."""

    image: AnnotatedImage
    annotator: str
    date: str
    step: str

    @property
    def key(self) -> Key:
        return image_name(self.image.file, "stem"), self.image.frame


def acts_of(log: Log, images: Sequence[AnnotatedImage], step: str, annotator: str | None, date: str) -> list[Act]:
    """The acts that the log does not have yet."""
    taken = {act.serial for act in log.acts}
    # After «back» the same drawing is another act.
    rounds: dict[Key, int] = defaultdict(int)
    for act in log.acts:
        rounds[act.key] += act.decision == "back"
    new: dict[str, Act] = {}
    for image in images:
        who = image.annotator or annotator
        if not who:
            raise UserError(
                f"{printable(image.file)}: the export does not say who annotated it; name the person with annotator=…."
            )
        source = _Source(image, who, image.date or date, step)
        for act in _OF_STEP[step](log, source, str(rounds[source.key])):
            if act.serial not in taken:
                new[act.serial] = act
    return list(new.values())


def _own(log: Log, source: _Source, round_: str) -> list[Act]:
    """What somebody drew alone."""
    shapes = source.image.shapes
    if sum(shape.is_label for shape in shapes) > 1:
        raise UserError(
            f"{printable(source.image.file)}: {source.annotator} gave it two labels; an image has one, choose it."
        )
    acts = [_act(log, source, shape, round_, number) for number, shape in enumerate(shapes or (Shape(""),))]
    before = {
        act.serial
        for act in log.acts
        if (act.key, act.annotator) == (source.key, source.annotator) and act.step in ("independent", "initial")
    }
    rest = {act.serial for act in log.acts if act.key == source.key and act.decision == "back"}
    if before and not rest and before != {act.serial for act in acts}:
        raise UserError(
            f"{log.path}: {source.annotator} annotated {printable(source.image.file)} before, and otherwise; the log "
            "only grows: send it back by a review first."
        )
    return acts


def _arbitrated(log: Log, source: _Source, round_: str) -> list[Act]:
    """What is right where the others disagree; a candidate whose shapes are gone was nothing."""
    asked = {act.serial: act for act in candidates_waiting(log, "arbitration") if act.key == source.key}
    acts = []
    for number, shape in enumerate(source.image.shapes):
        serial = _candidate(asked, shape)
        sources = (serial,) if serial else ()
        if sources or not shape.notes.get(SERIAL):  # what is left are candidates that do not wait any more
            acts.append(_act(log, source, shape, round_, number, sources))
    answered = {source for act in acts for source in act.sources}
    for serial in asked.keys() - answered:
        acts.append(_act(log, source, Shape(""), round_, serial, (serial,)))
    return acts


def _reviewed(log: Log, source: _Source, round_: str) -> list[Act]:
    """Decisions about candidates; one that was redrawn first becomes an act of the reviewer."""
    asked = {act.serial: act for act in candidates_waiting(log, "review") if act.key == source.key}
    acts: list[Act] = []
    seen = set()
    for number, shape in enumerate(source.image.shapes):
        serial = _candidate(asked, shape)
        if serial is None:
            if not shape.notes.get(SERIAL):
                acts.append(_act(log, replace(source, step="arbitration"), shape, round_, number))
            continue
        seen.add(serial)
        decision = shape.notes.get(DECISION, "")
        if decision not in ("gold", "back"):
            continue
        about = serial
        if decision == "gold" and not _same(log, asked[serial], shape, source.image.size):
            redrawn = _act(log, replace(source, step="arbitration"), shape, round_, number, (serial,))
            acts.append(redrawn)
            about = redrawn.serial
        acts.append(_decision(log, source, about, decision))
    acts += [_decision(log, source, serial, "back") for serial in asked if serial not in seen]
    return acts


_OF_STEP: dict[str, Callable[[Log, _Source, str], list[Act]]] = {
    "independent": _own,
    "arbitration": _arbitrated,
    "review": _reviewed,
}


def _candidate(asked: Mapping[str, Act], shape: Shape) -> str | None:
    """The serial that stands at the shape; a label belongs to the one candidate that is a label, too."""
    named = shape.notes.get(SERIAL, "")
    if named in asked:
        return named
    labels = [act.serial for act in asked.values() if act.box is None and not act.mask]
    return labels[0] if shape.is_label and len(labels) == 1 else None


def _act(log: Log, source: _Source, shape: Shape, round_: str, number: object, sources: tuple[str, ...] = ()) -> Act:
    image = source.image
    drawn = shape.drawn(image.size)
    place = exact_box(shape) if drawn is None else hashlib.sha256(np.packbits(drawn).tobytes()).hexdigest()
    step = "initial" if drawn is not None and source.step == "independent" else source.step
    said = (step, source.annotator, *map(str, source.key), shape.category, place, round_, str(number), *sources)
    act = _new(log, source, said, shape.category, sources)
    mask = ""
    if drawn is not None:
        if not drawn.any():
            raise UserError(f"{printable(image.file)}: an outline of '{shape.category}' has no area; delete it.")
        mask = f"{MASKS}/{act.serial}.png"
        content = cv2.imencode(".png", drawn.astype(np.uint8) * 255)[1].tobytes()
        write_bytes(make_directory(log.path.parent / MASKS) / f"{act.serial}.png", content)
    return replace(act, step=step, box=shape.box, mask=mask)


def exact_box(shape: Shape) -> str:
    """Rounded to a hundredth of a pixel, which tools keep."""
    return "" if shape.box is None else " ".join(f"{side:.2f}" for side in shape.box)


def _decision(log: Log, source: _Source, serial: str, decision: str) -> Act:
    act = _new(log, source, ("review", source.annotator, serial, decision), "", (serial,))
    return replace(act, decision=decision)


def _new(log: Log, source: _Source, said: Sequence[str], category: str, sources: tuple[str, ...]) -> Act:
    serial = "t" + hashlib.sha256("\n".join(said).encode()).hexdigest()[:12]
    return Act(
        line=0,
        serial=serial,
        file=source.image.file,
        frame=source.image.frame,
        category=category,
        step=source.step,
        annotator=source.annotator,
        sources=sources,
        date=source.date,
        optional=("",) * (len(log.header) - len(COLUMNS)),
    )


def _same(log: Log, candidate: Act, shape: Shape, size: tuple[int, int]) -> bool:
    if candidate.category != shape.category:
        return False
    if candidate.box is not None and shape.box is not None:
        return bool(box_iou([candidate.box], [shape.box])[0, 0] > _SAME_BOX)
    drawn = shape.drawn(size)
    if candidate.mask and drawn is not None:
        before = read_act_mask(log, candidate)
        counts = pixel_counts(before, drawn) if before.shape == drawn.shape else None
        return counts is not None and float(counts.tp / (counts.tp + counts.fp + counts.fn)) > _SAME_MASK
    return candidate.box is None and not candidate.mask and shape.is_label


def read_act_mask(log: Log, act: Act) -> Mask:
    found = cv2.imread(str(log.path.parent / act.mask), cv2.IMREAD_GRAYSCALE)
    if found is None:
        raise log.fail(act, f"its mask {act.mask} cannot be read; put the file back.")
    return np.asarray(found) > 127
