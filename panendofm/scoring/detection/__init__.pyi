from . import average_precision, boxes, frames, patients, timeline, video

__all__ = [
    "average_precision",
    "boxes",
    "frames",
    "patients",
    "timeline",
    "video",
]
