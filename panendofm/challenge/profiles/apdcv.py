"""APDCV 2015: polyps localized by points in their masks."""

from __future__ import annotations

from panendofm.challenge.placed_points import PlacedPoints
from panendofm.challenge.profile import Metrics, PointProfile
from panendofm.scoring.classification import rates


def _metrics(points: PlacedPoints) -> Metrics:
    counts = points.counts()
    return {
        "f1": rates.f_score(counts),
        "precision": rates.precision(counts),
        "recall": rates.recall(counts),
        "f2": rates.f_score(counts, 2.0),
        "f1_mean_of_videos": points.mean_f1_of_videos(),
    }


PROFILES = (
    PointProfile(
        name="apdcv",
        about="a finding is found by a point in it, a point outside is a false alarm; boxes count by their center",
        metrics=_metrics,
        ranking=("f1", "recall", "precision"),
        default=True,
    ),
)
