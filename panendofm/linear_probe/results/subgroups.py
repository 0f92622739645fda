"""The macro-AUC on parts of the test side: one dataset, center, country, instrument, or quality.

A part may lack classes, so its macro mean is taken over those that can be told apart inside it, and it is compared with
all images over the same classes. Replicates draw groups of the whole test side, so part and whole are paired.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panendofm.atlas import TRAITS
from panendofm.linear_probe.results.document import SubgroupAuc
from panendofm.scoring.classification.metrics import Floats, Targets, roc_auc
from panendofm.scoring.statistics.estimates import estimate
from panendofm.scoring.statistics.intervals import macro_auc_replicates


def subgroup_aucs(
    targets: Targets,
    logits: Floats,
    evaluable: NDArray[np.bool_],
    groups: NDArray[np.int64],
    traits: Sequence[tuple[tuple[str, str], ...]],
    weights: Floats,
    class_aucs: Floats,
    confidence: float,
) -> list[SubgroupAuc]:
    """targets and logits [n, C]; weights [1 + R, n] and class_aucs [1 + R, C], the AUCs of all images under them.

    A kind that tells no images apart (all of one dataset) is left out.
    """
    found = []
    every = {trait for own in traits for trait in own}
    for kind in TRAITS:
        names = sorted(name for own_kind, name in every if own_kind == kind)
        if len(names) < 2 and all((kind, name) in own for name in names for own in traits):
            continue
        for name in names:
            rows = np.array([(kind, name) in own for own in traits])  # [n]
            known = evaluable & ~np.isnan(roc_auc(targets[rows], logits[rows]))
            inside = macro_auc_replicates(targets[rows], logits[rows], weights[:, rows], known)  # [1 + R]
            whole = _mean_of_known(class_aucs[:, known])
            found.append(
                SubgroupAuc(
                    kind=kind,
                    name=name,
                    images=int(rows.sum()),
                    groups=len(np.unique(groups[rows])),
                    classes=int(known.sum()),
                    auc=estimate(inside, confidence),
                    difference=estimate(inside - whole, confidence),
                )
            )
    return found


def _mean_of_known(values: Floats) -> Floats:
    """Of each row [R], without what is not defined there."""
    known = ~np.isnan(values)
    count = known.sum(1)
    total = np.where(known, values, 0.0).sum(1)
    result: Floats = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return result
