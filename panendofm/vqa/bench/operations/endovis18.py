"""EndoVis 2018 with kinds of instruments, and what each of them does.

images/seq_1_frame000.png
annotations/seq_1_frame000.png        the number of a kind in every pixel
interactions/seq_1_frame000.xml       object: name, interaction (optional)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from panendofm.atlas import Region
from panendofm.imaging.images import open_image
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.operations.source import (
    Moment,
    OperationSource,
    as_annotation,
    images_below,
    instrument,
    regions_of_mask,
)

_OPERATION = "porcine abdominal surgery"
_KINDS = (
    "",
    "Bipolar Forceps",
    "Prograsp Forceps",
    "Large Needle Driver",
    "Monopolar Curved Scissors",
    "Ultrasound Probe",
    "Suction Instrument",
    "Clip Applier",
)


def _looks_like(folder: Path) -> bool:
    return any(folder.rglob("images/seq_*_frame*.png")) and any(folder.rglob("annotations/seq_*_frame*.png"))


def _read(folder: Path) -> Iterator[Moment]:
    for path in images_below(folder):
        found = re.fullmatch(r"(seq_\d+)_frame\d+", path.stem)
        mask = path.parent.parent / "annotations" / path.name
        if found is None or path.parent.name != "images" or not mask.is_file():
            continue
        numbers = np.asarray(open_image(mask))[..., 0]  # [H, W]
        names: list[str] = []
        regions: list[Region] = []
        for number in np.unique(numbers[numbers > 0]).tolist():
            if number >= len(_KINDS):
                raise UserError(f"{mask}: it holds the kind {number}; 1 to {len(_KINDS) - 1} are known.")
            own = regions_of_mask(numbers == number, instrument(_KINDS[number], _OPERATION))
            regions += own
            names += [_KINDS[number]] * bool(own)
        action = _action(path.parent.parent / "interactions" / f"{path.stem}.xml")
        yield Moment(path, found[1], as_annotation(_OPERATION, names, action=action), tuple(regions))


def _action(path: Path) -> str:
    """What the one instrument does; of several the question would not know which one is meant."""
    if not path.is_file():
        return ""
    try:
        tree = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    except ElementTree.ParseError as error:
        raise UserError(f"{path}: not valid XML ({error}).") from error
    done = [text for node in tree.iter("interaction") if (text := (node.text or "").strip())]
    return done[0].replace("_", " ") if len(done) == 1 else ""


SOURCE = OperationSource(
    "endovis18",
    "EndoVis 2018",
    _OPERATION,
    "CC BY-NC-SA 4.0 (recalled, not verified)",
    _looks_like,
    _read,
    checked="layout of the annotations by kind, recalled; no real files were at hand",
)
