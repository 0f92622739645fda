"""Whether adapted weights are better than their start, in one word, one document and one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pretrain.adapt.judge import Difference

Outcome = Literal["better", "no difference", "worse"]


@dataclass(frozen=True)
class Adaptation:
    """adaptation.json: what came of an adaptation. Differences are to the recentered start."""

    outcome: Outcome
    knn: Difference
    probe: Difference
    knn_before: float
    knn_after: float
    probe_before: float
    probe_after: float
    common_share_before: float
    common_share_after: float
    images: int  # that were trained on
    labeled_images: int
    presentations: int

    def sentence(self, start: str, release: Path) -> str:
        both = f"kNN {self.knn.shown()}, linear probe {self.probe.shown()}"
        if self.outcome == "better":
            return f"better than the start: {both}; the adapted weights are in {release}."
        if self.outcome == "worse":
            return f"worse than the start: {both}; kept the start, {start}. Try fewer presentations or a lower rate."
        return f"no difference to the start beyond noise: {both}; kept the start, {start}."


def verdict_of(knn: Difference, probe: Difference) -> Outcome:
    """Better: one of the two beyond noise, and neither worse. Worse: either of them beyond noise."""
    differences = (knn, probe)
    if any(difference.high < 0 for difference in differences):
        return "worse"
    if any(difference.low > 0 for difference in differences):
        return "better"
    return "no difference"
