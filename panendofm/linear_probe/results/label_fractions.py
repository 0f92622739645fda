"""How much labeled data a network needs: the probe trained on 1, 5, 10 … % of the training groups."""

from __future__ import annotations

import hashlib
from math import ceil

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from panendofm.atlas import TEST, TRAIN, Task
from panendofm.linear_probe.config import ProbeConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import train_probe
from panendofm.linear_probe.results.document import LabelFraction
from panendofm.linear_probe.results.evaluate import TestSide
from panendofm.scoring.classification.confusion import multiclass_mcc, weighted_confusions
from panendofm.scoring.statistics.estimates import estimate, value_and_replicate_weights
from panendofm.scoring.statistics.intervals import macro_auc_replicates

UNUSED = -1


def training_subset(
    targets: NDArray[np.bool_], sides: NDArray[np.int64], groups: NDArray[np.int64], share: float, seed: int
) -> NDArray[np.int64]:
    """The sides with all but a share of the training groups left out.

    Whole groups, the same order for every share: a smaller subset lies inside a larger one. Of each class the share is
    taken, one group at least, so that every class can be learned at all.
    """
    keep: set[int] = set()
    for c in range(targets.shape[1]):
        holders = np.unique(groups[(sides == TRAIN) & targets[:, c]]).tolist()
        ordered = sorted(holders, key=lambda g: hashlib.sha256(f"{seed} {g}".encode()).hexdigest())
        keep.update(ordered[: ceil(share * len(ordered))])
    left_out = (sides == TRAIN) & ~np.isin(groups, list(keep))
    return np.where(left_out, UNUSED, sides)


def label_fraction_curve(
    task: Task,
    sides: NDArray[np.int64],
    groups: NDArray[np.int64],
    features: Tensor,
    columns: list[Columns],
    side: TestSide,
    config: ProbeConfig,
) -> list[LabelFraction]:
    """Macro-AUC and, for one answer an image, MCC on the test side after training on each share of the labels."""
    weights = value_and_replicate_weights(side.groups, config.bootstrap)
    test = from_numpy(sides == TEST)
    points = []
    for share in config.label_fractions:
        subset = training_subset(task.targets, sides, groups, share, config.bootstrap.seed)
        head = train_probe(task, subset, features, columns, config.protocol, config.grid).head
        logits = head.logits(features[test])
        aucs = macro_auc_replicates(side.targets, logits, weights, side.evaluable)
        auc = estimate(aucs, config.bootstrap.confidence)
        mcc = None
        if task.exclusive:
            truth, answer = side.targets.argmax(1), logits.argmax(1)
            matrices = weighted_confusions(truth, answer, len(task.classes), weights)
            mcc = estimate(multiclass_mcc(matrices), config.bootstrap.confidence)
        points.append(LabelFraction(share, int((subset == TRAIN).sum()), auc, mcc))
    return points
