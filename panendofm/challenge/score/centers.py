"""Center by center, and how much is lost at one that was not in training."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from panendofm.challenge.files.frames import FrameSet
from panendofm.challenge.score.results import Centers
from panendofm.scoring.statistics.estimates import defined
from panendofm.scoring.statistics.generalization import generalization


def center_scores(
    metric: str, value_where: Callable[[NDArray[np.bool_]], float], frames: FrameSet, unseen: str | None
) -> Centers | None:
    """`value_where` gives the metric of the frames [N] that are True, NaN where it has none."""
    if not frames.centers:
        return None
    gap = None
    if unseen is not None:
        inside = frames.inside(unseen)
        seen_value = value_where(~inside)
        unseen_value = value_where(inside)
        if not np.isnan(seen_value) and not np.isnan(unseen_value):
            gap = generalization(seen_value, unseen_value)
    return Centers(
        metric=metric,
        values={name: defined(value_where(frames.inside(name))) for name in frames.centers},
        frames={name: int(frames.inside(name).sum()) for name in frames.centers},
        generalization=gap,
    )
