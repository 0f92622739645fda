"""EAD 2019: masks by Dice, IoU and F2."""

from __future__ import annotations

from panendofm.challenge.profile import MaskProfile, Metrics
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.masks import EmptyRules


def _score(means: Metrics) -> Floats:
    return 0.75 * (means["dice"] + means["iou"]) / 2 + 0.25 * means["f2"]


PROFILES = (
    MaskProfile(
        name="ead2019",
        about="0.75 of the mean of Dice and IoU, 0.25 of F2; empties by our rule",
        empties=EmptyRules(),
        score=_score,
    ),
)
