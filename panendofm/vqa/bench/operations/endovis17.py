"""EndoVis 2017: robotic operations on pigs, with a mask for each kind of instrument.

instrument_dataset_1/left_frames/frame000.png
instrument_dataset_1/ground_truth/Left_Prograsp_Forceps_labels/frame000.png
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from panendofm.atlas import Region
from panendofm.imaging.images import open_image
from panendofm.vqa.bench.operations.source import (
    Moment,
    OperationSource,
    as_annotation,
    images_below,
    instrument,
    regions_of_mask,
)

_OPERATION = "porcine abdominal surgery"


def _looks_like(folder: Path) -> bool:
    return any(folder.glob("instrument_dataset_*/ground_truth/*_labels"))


def _kind(folder: str) -> str:
    """«Left_Prograsp_Forceps_labels» → «Prograsp Forceps»."""
    bare = re.sub(r"^(Left|Right)_|_?labels$", "", folder, flags=re.IGNORECASE)
    return " ".join(bare.split("_")).strip()


def _read(folder: Path) -> Iterator[Moment]:
    import numpy as np

    for video in sorted(folder.glob("instrument_dataset_*")):
        kinds = [path for path in sorted((video / "ground_truth").glob("*_labels")) if path.is_dir()]
        for path in images_below(video / "left_frames"):
            names: list[str] = []
            regions: list[Region] = []
            masks = [kind / path.name for kind in kinds]
            if not any(mask.is_file() for mask in masks):
                continue  # frames of the test part have none
            for kind, mask in zip(kinds, masks, strict=True):
                name = _kind(kind.name)
                # «Other» holds what has no name: it can't be asked for, nor counted as one kind.
                if name.lower().startswith("other") or not mask.is_file():
                    continue
                shown = np.asarray(open_image(mask)).max(axis=-1) > 0
                own = regions_of_mask(shown, instrument(name, _OPERATION))
                regions += own
                names += [name] * bool(own)
            yield Moment(path, video.name, as_annotation(_OPERATION, names), tuple(regions))


SOURCE = OperationSource(
    "endovis17",
    "EndoVis 2017",
    _OPERATION,
    "CC BY-NC-SA 4.0 (recalled, not verified)",
    _looks_like,
    _read,
    checked="layout from its description; no real files were at hand",
)
