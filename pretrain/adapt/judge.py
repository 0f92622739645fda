"""What a backbone is worth on labeled images, image by image, so that two backbones can be compared in pairs.

Two measures that users of features know: the vote of 20 neighbors, and a linear probe. Near-duplicates never stand on
both sides of either.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import nn

from eval_knn import EvalConfig, Evaluator
from panendofm.backbone import Preprocessing
from panendofm.records.evaluation import WORSE, Verdict, decode_ranks
from panendofm.runtime.config import load_config
from panendofm.scoring.features.spectrum import common_share
from panendofm.scoring.statistics.intervals import group_weights, percentile_interval

NEIGHBORS = 20
_FOLDS = 5
# The inverse of the penalty on large weights of the probe; features are standardized first.
_PROBE_C = 0.1
_REPLICATES = 2000
_CONFIDENCE = 0.95
Hits = NDArray[np.bool_]


@dataclass(frozen=True)
class Judgement:
    """One backbone on N labeled images."""

    knn: Hits  # [N] whether the neighbors voted for the image's class
    probe: Hits  # [N] whether the probe that did not see the image's group found its class
    rankme: float
    common_share: float  # how much of the features' length is one vector that all have in common


@dataclass(frozen=True)
class Difference:
    """Of two accuracies on the same images, in shares of 1, with its interval over near-duplicate groups."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        if self.low > 0:
            return "better beyond noise"
        return WORSE if self.high < 0 else "no difference beyond noise"

    def shown(self) -> str:
        """In points."""
        return f"{100 * self.value:+.1f} points ({100 * self.low:+.1f} to {100 * self.high:+.1f})"


class Judge:
    """Judges backbones on one labeled set at one image size."""

    def __init__(
        self, labeled: Path, crop_px: int, cache: Path | None = None, clean: bool = True, k: int = NEIGHBORS
    ) -> None:
        words = [f"data.path={labeled}", f"data.clean={str(clean).lower()}", "split.leave_one_group_out=true"]
        words += [f"ks=[{k}]", "features.threads=1"]
        if cache is not None:
            words.append(f"cache={cache}")
        self.evaluator = Evaluator(load_config(EvalConfig, None, words))
        self.preprocessing = Preprocessing().at_crop(crop_px)
        self.k = k

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.evaluator.images.labels  # [N]

    @property
    def groups(self) -> NDArray[np.int64]:
        """The near-duplicate group of each image [N]."""
        return self.evaluator.split.groups

    def judge(self, model: nn.Module, name: str) -> Judgement:
        result = self.evaluator.score_model(model, name, None, self.preprocessing)
        ranks = decode_ranks(result.document.k[str(self.k)].rank_of_truth)
        return Judgement(
            knn=ranks < 1,
            probe=probe_hits(result.features, self.labels, self.groups),
            rankme=result.document.rankme,
            common_share=common_share(result.features),
        )

    def difference(self, after: Hits, before: Hits) -> Difference:
        return difference(after, before, self.groups)


def difference(after: Hits, before: Hits, groups: NDArray[np.int64]) -> Difference:
    """Of hits [N], with the same images drawn for both, and whole near-duplicate groups at a time."""
    change = after.astype(np.float64) - before  # [N]
    weights = group_weights(groups, _REPLICATES, seed=0)  # [R, N]
    low, high = percentile_interval(weights @ change / weights.sum(axis=1), _CONFIDENCE) or (np.nan, np.nan)
    return Difference(float(change.mean()), float(low), float(high))


def probe_hits(features: NDArray[np.float32], labels: NDArray[np.int64], groups: NDArray[np.int64]) -> Hits:
    """Logistic regression on features [N, D], in five folds none of which shares a group with another.

    Every feature is standardized first: a common vector, which shrinks what tells images apart, would otherwise make
    the penalty count for more.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedGroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    hits = np.zeros(len(labels), bool)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    for train, test in folds.split(features, labels, groups):
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=_PROBE_C, max_iter=2000))
        probe.fit(features[train], labels[train])
        hits[test] = probe.predict(features[test]) == labels[test]
    return hits
