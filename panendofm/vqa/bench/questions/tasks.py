"""The twelve tasks with their sub-tasks: what is asked for, and how its options are ordered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Subtask:
    code: str
    task: str
    category: str
    title: str
    prompt_kind: str = "image"  # image, box, contour, multi, coordinate
    natural_order: bool = False  # numbers, grades, yes and no keep their order
    needs_regions: bool = False


CATEGORIES = ("anatomy", "lesion", "surgery", "spatial")
SCENES = {"GS": "gastroscopy", "CS": "colonoscopy", "CE": "capsule endoscopy", "SE": "surgical endoscopy"}

SUBTASKS: dict[str, Subtask] = {
    s.code: s
    for s in (
        Subtask("LI", "LI", "anatomy", "landmark"),
        Subtask("OI", "OI", "anatomy", "organ"),
        Subtask("LQ", "LQ", "lesion", "number of polyps", natural_order=True, needs_regions=True),
        Subtask("LC", "LT", "lesion", "lesion class"),
        Subtask("PT", "LT", "lesion", "polyp histology"),
        Subtask("LS", "LS", "lesion", "severity", natural_order=True),
        Subtask("PA", "PA", "surgery", "bowel preparation", natural_order=True),
        Subtask("SP", "MP", "surgery", "phase of the operation"),
        Subtask("SS", "MP", "surgery", "step of the operation"),
        Subtask("SA", "MO", "surgery", "action of an instrument"),
        Subtask("TI", "MO", "surgery", "intervention"),
        Subtask("IC", "IM", "surgery", "number of kinds of instrument", natural_order=True),
        Subtask("IP", "IM", "surgery", "presence of an instrument", natural_order=True),
        Subtask("VG", "VG", "spatial", "grounding", "coordinate", needs_regions=True),
        Subtask("RS", "RS", "spatial", "region selection", "multi", needs_regions=True),
        Subtask("RR_box", "RR", "spatial", "region recognition, box", "box", needs_regions=True),
        Subtask("RR_contour", "RR", "spatial", "region recognition, contour", "contour", needs_regions=True),
        Subtask("RR_multi", "RR", "spatial", "region recognition, several regions", "multi", needs_regions=True),
        Subtask("RR_coordinate", "RR", "spatial", "region recognition, coordinates", "coordinate", needs_regions=True),
    )
}
TASKS = tuple(dict.fromkeys(s.task for s in SUBTASKS.values()))
# A whole picture is asked about.
WHOLE_PICTURE = ("LI", "OI", "LQ", "LC", "PT", "LS", "PA", "SP", "SS", "SA", "TI", "IC", "IP")
# One choice of regions serves all of these, so that kinds of prompt can be compared on the same pictures.
REGION = ("VG", "RS", "RR_box", "RR_contour", "RR_multi", "RR_coordinate")

COUNTS = ("0", "1", "2", "3", "4", "More than 4")
YES_NO = ("Yes", "No")
