"""EndoTect 2020: labels by the averages of Medico 2018, masks by their mean IoU."""

from __future__ import annotations

from panendofm.challenge.profile import LabelProfile, MaskProfile
from panendofm.challenge.profiles.medico import medico2018
from panendofm.scoring.masks import EmptyRules

PROFILES = (
    LabelProfile(name="endotect", about="macro averages, undefined as 0, multi-class MCC", metrics=medico2018),
    MaskProfile(
        name="endotect",
        about="mean IoU over images; a correct «nothing» counts as 0",
        empties=EmptyRules(correct_nothing=0.0),
        score=lambda means: means["iou"],
    ),
)
