"""Will adaptation help? A guess from the starting weights' features of the training images alone.

Features that share one vector, or that use few of their dimensions, leave room. The rule was fixed before it was tried;
docs/how-to/adaptation.md counts how often it was right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import nn

from panendofm.backbone import ImageList, Preprocessing, evenly, extract_features
from panendofm.records.shards import ShardFolder
from panendofm.scoring.features.spectrum import common_share, rankme

_MOST_IMAGES = 1000
_BATCH_IMAGES = 64
_MUCH_IN_COMMON = 0.5
_FEW_DIMENSIONS = 0.25  # of the width
_PAIRS_SEED = 0
_MOST_PAIRS = 100_000


@dataclass(frozen=True)
class Prediction:
    common_share: float
    rankme: float
    uniformity: float  # log of the mean Gaussian potential of pairs (Wang and Isola 2020); lower is more even
    width: int

    @property
    def likely(self) -> bool:
        return self.common_share > _MUCH_IN_COMMON or self.rankme < _FEW_DIMENSIONS * self.width

    def sentence(self) -> str:
        what = "is likely to help" if self.likely else "may not help"
        return (
            f"adaptation {what}: {self.common_share:.0%} of the features' length is common to all images, and they use "
            f"{self.rankme:.0f} of {self.width} dimensions (uniformity {self.uniformity:.2f})."
        )


def predict_from(start: nn.Module, shards: ShardFolder, crop_px: int) -> Prediction:
    """From the start's features of the training images, or of some of them that lie evenly."""
    images = evenly(ImageList([shards.path]), _MOST_IMAGES)
    preprocessing = Preprocessing().at_crop(crop_px)
    features = extract_features(start, images, preprocessing, _BATCH_IMAGES, label="features of the start")
    return predict(features.numpy())


def predict(features: NDArray[np.float32]) -> Prediction:
    """From features [N, D] of the start, before they are recentered."""
    return Prediction(common_share(features), rankme(features), uniformity(features), features.shape[1])


def uniformity(features: NDArray[np.float32]) -> float:
    """log mean exp(−2 |x − y|²) over pairs of unit features."""
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    rng = np.random.default_rng(_PAIRS_SEED)
    first, second = rng.integers(len(unit), size=(2, _MOST_PAIRS))
    apart = first != second
    distance = ((unit[first[apart]] - unit[second[apart]]) ** 2).sum(axis=1)
    return float(np.log(np.mean(np.exp(-2 * distance.astype(np.float64)))))
