"""Cholec80: frames of 80 gallbladder operations with the phase of every frame and the tools of every 25th.

phase_annotations/video01-phase.txt   Frame<tab>Phase, 25 a second
tool_annotations/video01-tool.txt     Frame<tab>Grasper<tab>…, 1 a second
frames/video01/000125.png             extracted by the user; the number is that of the frame
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from panendofm.runtime.csv_files import read_csv
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.operations.source import Moment, OperationSource, as_annotation, images_below

_TOOLS_EVERY = 25
_OPERATION = "cholecystectomy"
_PHASES = {
    "Preparation": "Preparation",
    "CalotTriangleDissection": "Calot triangle dissection",
    "ClippingCutting": "Clipping and cutting",
    "GallbladderDissection": "Gallbladder dissection",
    "GallbladderPackaging": "Gallbladder packaging",
    "CleaningCoagulation": "Cleaning and coagulation",
    "GallbladderRetraction": "Gallbladder retraction",
}
_TOOLS = {"SpecimenBag": "Specimen bag"}


def _looks_like(folder: Path) -> bool:
    return any(folder.glob("phase_annotations/video*-phase.txt"))


def _read(folder: Path) -> Iterator[Moment]:
    for video in sorted({path.parent.name for path in images_below(folder) if path.parent.name.startswith("video")}):
        phases = _phases(folder / "phase_annotations" / f"{video}-phase.txt")
        tools = _tools(folder / "tool_annotations" / f"{video}-tool.txt")
        for path in (path for path in images_below(folder) if path.parent.name == video):
            number = re.search(r"(\d+)$", path.stem)
            if number is None:
                raise UserError(f"{path}: the name must end in the number of the frame.")
            frame = int(number[1])
            names = tools.get(frame - frame % _TOOLS_EVERY)
            yield Moment(path, video, as_annotation(_OPERATION, names, phase=phases.get(frame, "")))


def _phases(path: Path) -> dict[int, str]:
    if not path.is_file():
        return {}
    rows = read_csv(path, ("Frame", "Phase"), delimiter="\t")
    return {int(row["Frame"]): _PHASES.get(row["Phase"], row["Phase"]) for row in rows}


def _tools(path: Path) -> dict[int, list[str]]:
    if not path.is_file():
        return {}
    return {
        int(row["Frame"]): [_TOOLS.get(name, name) for name, flag in row.items() if name != "Frame" and flag == "1"]
        for row in read_csv(path, ("Frame",), delimiter="\t")
    }


SOURCE = OperationSource(
    "cholec80",
    "Cholec80",
    _OPERATION,
    "CC BY-NC-SA 4.0 (recalled, not verified)",
    _looks_like,
    _read,
    checked="layout from its description; no real files were at hand",
)
