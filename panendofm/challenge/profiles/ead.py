"""EAD, artifacts in endoscopy: masks of 2019; boxes and masks of 2020 (in EndoCV 2020) and of 2022 (EAD 2.0)."""

from __future__ import annotations

from panendofm.challenge.profile import BoxProfile, MaskProfile, Metrics
from panendofm.challenge.profiles.endocv2020 import ENDOCV2020, endocv_box_metrics, mean_of_overlaps
from panendofm.challenge.profiles.endocv2021 import overlaps_and_distance
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.masks import EmptyRules

# In the order of the challenge's class numbers, which its files use.
ARTIFACTS = ("specularity", "saturation", "artifact", "blur", "contrast", "bubbles", "instrument", "blood")
# Those whose outline can be drawn.
OUTLINED = ("instrument", "specularity", "artifact", "bubbles", "saturation")
_RANKING = ("score", "map", "iou_of_all_boxes")


def _score_2019(means: Metrics) -> Floats:
    return 0.75 * (means["dice"] + means["iou"]) / 2 + 0.25 * means["f2"]


PROFILES = (
    MaskProfile(
        name="ead2019",
        about="0.75 of the mean of Dice and IoU, 0.25 of F2; empties by our rule",
        empties=EmptyRules(),
        score=_score_2019,
    ),
    BoxProfile(
        name="ead2020",
        about="eight artifacts; EndoCV 2020's AP and IoU; score = 0.6 mAP + 0.4 IoU",
        rules=ENDOCV2020,
        metrics=endocv_box_metrics,
        ranking=_RANKING,
        classes=ARTIFACTS,
    ),
    MaskProfile(
        name="ead2020",
        about="five artifacts; mean of Dice, F2, precision and recall; empties by our rule",
        empties=EmptyRules(),
        score=mean_of_overlaps,
        classes=OUTLINED,
    ),
    BoxProfile(
        name="ead2022",
        about="EAD 2.0: eight artifacts; score = 0.6 mAP + 0.4 IoU, by the scripts of 2020",
        rules=ENDOCV2020,
        metrics=endocv_box_metrics,
        ranking=_RANKING,
        classes=ARTIFACTS,
    ),
    MaskProfile(
        name="ead2022",
        about="EAD 2.0: mean of Dice, precision, recall and 1 − Hausdorff",
        empties=EmptyRules(precision_of_nothing=1.0),
        score=overlaps_and_distance,
        classes=OUTLINED,
    ),
)
