"""COCO's average precision."""

from __future__ import annotations

from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, Metrics
from panendofm.scoring.detection.average_precision import COCO


def coco_metrics(boxes: MatchedBoxes) -> Metrics:
    return {"map": boxes.mean_ap(), "map_50": boxes.mean_ap(0.5), "map_75": boxes.mean_ap(0.75)}


PROFILES = (
    BoxProfile(
        name="coco",
        about="COCO: 101 recalls, IoU .50:.05:.95",
        rules=COCO,
        metrics=coco_metrics,
        ranking=("map", "map_50", "map_75"),
        default=True,
    ),
)
