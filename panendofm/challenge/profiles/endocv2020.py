"""EndoCV 2020: boxes by 0.6 mAP + 0.4 IoU, masks by the mean of four overlaps."""

from __future__ import annotations

import numpy as np

from panendofm.challenge.matched_boxes import MatchedBoxes
from panendofm.challenge.profile import BoxProfile, MaskProfile, Metrics
from panendofm.challenge.profiles.coco import coco_metrics
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.detection.average_precision import BoxRules, iou_steps
from panendofm.scoring.masks import EmptyRules


def endocv_box_metrics(boxes: MatchedBoxes) -> Metrics:
    iou = boxes.mean_iou()
    return {
        **coco_metrics(boxes),
        "map_25": boxes.mean_ap(0.25),
        # Over all boxes, as the script has it; beside it that of true positives alone, which weak boxes don't lower.
        "iou_of_all_boxes": iou,
        "score": 0.6 * boxes.mean_ap() + 0.4 * iou,
        "iou_of_true_positives_50": boxes.mean_iou_of_true_positives(0.5),
    }


def mean_of_overlaps(means: Metrics) -> Floats:
    parts = [np.nan_to_num(means[name]) for name in ("dice", "f2", "precision", "recall")]
    return np.asarray(np.mean(parts, axis=0))


# The script adds a pixel to each side and lets a taken box make the next detection wrong.
ENDOCV2020 = BoxRules(iou_steps(0.25, 0.75), "all points", free_boxes=False, limit=None, extra_px=1.0)
PROFILES = (
    BoxProfile(
        name="endocv2020",
        about="all points, IoU .25:.05:.75, one pixel more a side; score = 0.6 mAP + 0.4 IoU",
        rules=ENDOCV2020,
        metrics=endocv_box_metrics,
        ranking=("score", "map", "iou_of_all_boxes"),
    ),
    MaskProfile(
        name="endocv2020",
        about="mean of Dice, F2, precision and recall; empties by our rule",
        empties=EmptyRules(),
        score=mean_of_overlaps,
    ),
)
