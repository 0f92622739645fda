"""Our own rules for masks: a correct «nothing» is right, and the mean Dice over images ranks."""

from __future__ import annotations

from panendofm.challenge.profile import MaskProfile
from panendofm.scoring.masks import EmptyRules

PROFILES = (
    MaskProfile(
        name="house",
        about="mean Dice over images; a correct «nothing» counts as 1",
        empties=EmptyRules(),
        score=lambda means: means["dice"],
        default=True,
    ),
)
