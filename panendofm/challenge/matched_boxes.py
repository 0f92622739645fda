"""What profiles of boxes compute their metrics from: detections matched to true boxes, under bootstrap weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from panendofm.scoring.classification.rates import Floats, mean_over_defined
from panendofm.scoring.detection import average_precision as ap
from panendofm.scoring.detection.boxes import Boxes, Matches


class MatchedBoxes:
    """True boxes and detections of each class, matched at every threshold; metrics are [1 + R] for R replicates."""

    def __init__(self, rules: ap.BoxRules, pairs: Mapping[str, tuple[Boxes, Boxes]], weights: Floats) -> None:
        self._rules = rules
        self._pairs = pairs
        self._weights = weights
        self.matches = {name: ap.match_class(*pair, rules) for name, pair in pairs.items()}

    @cached_property
    def ap(self) -> dict[str, dict[float, Floats]]:
        """By class and threshold."""
        return {name: self._ap(matches, self._weights) for name, matches in self.matches.items()}

    def _ap(self, matches: Mapping[float, Matches], weights: Floats) -> dict[float, Floats]:
        curve = self._rules.curve
        return {t: ap.average_precision_replicates(m, curve, weights) for t, m in matches.items()}

    def mean_ap(self, *thresholds: float) -> Floats:
        """Mean over classes with true boxes, and over these IoU thresholds (all of the rules without any)."""
        return _mean(self.ap, thresholds or self._rules.thresholds)

    def mean_ap_of_areas(self, above: float, up_to: float) -> Floats:
        """The same for boxes of these areas in square pixels."""
        matches = {n: ap.match_class(*pair, self._rules, (above, up_to)) for n, pair in self._pairs.items()}
        return _mean({n: self._ap(m, self._weights) for n, m in matches.items()}, self._rules.thresholds)

    def mean_ap_where(self, inside: NDArray[np.bool_]) -> float:
        """Of some of the images [N]; without replicates."""
        row = inside[None].astype(np.float64)
        return float(_mean({n: self._ap(m, row) for n, m in self.matches.items()}, self._rules.thresholds)[0])

    def mean_iou(self) -> Floats:
        """Mean overlap of all detections at all thresholds, false ones as 0, over classes with true boxes."""
        every = [m for matches in self._with_truth() for m in matches.values()]
        return np.asarray(np.mean([ap.mean_iou_of_all(m, self._weights) for m in every], axis=0))

    def mean_iou_of_true_positives(self, threshold: float) -> Floats:
        """Of detections that found a box; without replicates."""
        return mean_over_defined(np.array([[ap.mean_iou_of_true(m[threshold]) for m in self._with_truth()]]))

    def _with_truth(self) -> list[dict[float, Matches]]:
        """All classes where none has a true box: every metric is NaN or 0 then."""
        return [m for name, m in self.matches.items() if len(self._pairs[name][0])] or list(self.matches.values())


def _mean(by_class: Mapping[str, Mapping[float, Floats]], thresholds: Sequence[float]) -> Floats:
    means = [ap.mean_of_classes([by_threshold[t] for by_threshold in by_class.values()]) for t in thresholds]
    return np.asarray(np.mean(means, axis=0))
