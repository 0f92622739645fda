"""Paired tests between scored submissions of labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from panendofm.challenge.rank.ranking import PairedTest
from panendofm.challenge.score.tables import ANSWERS, read_answer_table
from panendofm.runtime.errors import UserError
from panendofm.scoring.classification.averages import square_mcc
from panendofm.scoring.classification.confusion import weighted_confusions
from panendofm.scoring.classification.rates import Floats
from panendofm.scoring.statistics.config import BootstrapConfig
from panendofm.scoring.statistics.intervals import group_weights
from panendofm.scoring.statistics.paired_tests import Measured, compare


def paired_tests(systems: Sequence[tuple[str, Path, float]], bootstrap: BootstrapConfig) -> list[PairedTest]:
    """Of every two systems (name, folder, multi-class MCC), corrected for the number of pairs (Holm)."""
    if len(systems) < 2:
        return []
    replicates = _replicates(systems, bootstrap)
    measured = {name: Measured(mcc, replicates[name]) for name, _, mcc in systems}
    pairs = list(combinations(measured, 2))
    compared = compare([(measured[a], measured[b]) for a, b in pairs], bootstrap.confidence)
    return [PairedTest(a, b, **vars(found)) for (a, b), found in zip(pairs, compared, strict=True)]


def _replicates(systems: Sequence[tuple[str, Path, float]], bootstrap: BootstrapConfig) -> dict[str, Floats]:
    """MCC of each system under the same drawn groups: that makes differences paired."""
    weights: Floats | None = None
    replicates: dict[str, Floats] = {}
    for name, folder, _ in systems:
        answers = read_answer_table(folder)
        if weights is None:
            weights = group_weights(answers.groups, bootstrap.replicates, bootstrap.seed)
        elif weights.shape[1] != len(answers.groups):
            raise UserError(f"{folder / ANSWERS} has other images than the first; score it again.")
        number = {label: i for i, label in enumerate(sorted({*answers.truth, *answers.answer}))}
        truth = np.array([number[label] for label in answers.truth])
        answer = np.array([number[label] for label in answers.answer])
        replicates[name] = square_mcc(weighted_confusions(truth, answer, len(number), weights))
    return replicates
