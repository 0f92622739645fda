"""EndoCV 2021: boxes also by area, masks by overlaps and distance."""

from __future__ import annotations

from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, MaskProfile, Metrics
from panendofm.challenge.profiles.coco import coco_metrics
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.average_precision import AREAS, COCO, mean_of_classes
from panendofm.scoring.masks import EmptyRules


def _box_metrics(boxes: MatchedBoxes) -> Metrics:
    metrics = coco_metrics(boxes)
    by_area = {f"map_{size}": boxes.mean_ap_of_areas(*areas) for size, areas in AREAS.items()}
    return {**metrics, **by_area, "score_d": mean_of_classes([metrics["map"], *by_area.values()])}


def overlaps_and_distance(means: Metrics) -> Floats:
    parts = [means[name] for name in ("dice", "precision", "recall")]
    return mean_of_classes([*parts, 1 - means["hausdorff_over_diagonal"]])


PROFILES = (
    BoxProfile(
        name="endocv2021",
        about="COCO's AP, also by box area (100², 200²); score is the mean of the four",
        rules=COCO,
        metrics=_box_metrics,
        ranking=("score_d", "map", "map_50"),
    ),
    MaskProfile(
        name="endocv2021",
        about="mean of Dice, precision, recall and 1 − Hausdorff; precision is 1 when nothing is predicted",
        empties=EmptyRules(precision_of_nothing=1.0),
        score=overlaps_and_distance,
    ),
)
