"""Leave one dataset out: heads are trained on all other datasets and tested on this one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, from_numpy

from panendofm.atlas import TEST, TRAIN, VALIDATION, Task, evaluable
from panendofm.linear_probe.config import ProbeConfig
from panendofm.linear_probe.features import Columns
from panendofm.linear_probe.heads.probe import train_probe
from panendofm.linear_probe.results.document import LeftOutDataset
from panendofm.linear_probe.results.label_fractions import UNUSED
from panendofm.scoring.statistics.estimates import Estimate, estimate, value_and_replicate_weights
from panendofm.scoring.statistics.intervals import macro_auc_replicates


def sides_without(inside: NDArray[np.bool_], sides: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sides [n] when the images `inside` are the test: validation stays, all else trains.

    Images of other datasets that share a group with one inside are not used.
    """
    result = np.where(sides == VALIDATION, VALIDATION, TRAIN)
    result[np.isin(groups, groups[inside])] = UNUSED
    result[inside] = TEST
    return result


def leave_one_dataset_out(
    task: Task,
    sides: NDArray[np.int64],
    groups: NDArray[np.int64],
    datasets: list[tuple[str, ...]],
    features: Tensor,
    columns: list[Columns],
    config: ProbeConfig,
) -> list[LeftOutDataset]:
    """All of them [n] of the task's rows; nothing for a task of one dataset."""
    names = sorted({name for own in datasets for name in own})
    if len(names) < 2:
        return []
    found = []
    for name in names:
        inside = np.array([name in own for own in datasets])
        own_sides = sides_without(inside, sides, groups)
        can = evaluable(task, own_sides)
        auc = Estimate(None)
        if can.any():
            head = train_probe(task, own_sides, features, columns, config.protocol, config.grid).head
            logits = head.logits(features[from_numpy(inside)])
            targets = task.targets[inside]
            weights = value_and_replicate_weights(groups[inside], config.bootstrap)
            auc = estimate(macro_auc_replicates(targets, logits, weights, can), config.bootstrap.confidence)
        training = int((own_sides == TRAIN).sum())
        found.append(LeftOutDataset(name, training, int(inside.sum()), int(can.sum()), auc))
    return found
