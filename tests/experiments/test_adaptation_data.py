"""What the tables say of training sets, on results with known answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.adaptation.arms import ARMS, FRESH_SEEDS, QUARTERS, TUNING_SEED
from experiments.adaptation.data_findings import prediction_rows, set_findings
from experiments.adaptation.findings import halves_of
from experiments.adaptation.runs import ArmResult, Point, StartResult, encode_hits, prediction_path
from experiments.adaptation.training_sets import DEFAULT
from panendofm.records.documents import write_document
from pretrain.adapt.judge import Hits
from pretrain.adapt.prediction import Prediction

IMAGES = 400
OTHER = "capsule_1500"
NOTHING = np.zeros(IMAGES, bool)


def point(quarter: int, knn: Hits, probe: Hits) -> Point:
    return Point(quarter, 32 * quarter, encode_hits(knn), encode_hits(probe), 1.0, 0.5)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """The arm finds everything of the report half in its second quarter, of the tuning half a tenth more there."""
    start = point(0, NOTHING, NOTHING)
    labels = " ".join(str(image % 4) for image in range(IMAGES))
    groups = " ".join(map(str, range(IMAGES)))
    for training_set in (DEFAULT, OTHER):
        write_document(tmp_path / f"start_{training_set}.json", StartResult(start, start, labels, groups))
    tuning = halves_of(StartResult(start, start, labels, groups)).tuning
    some = tuning & (np.arange(IMAGES) % 10 == 0)
    second = ~tuning | some
    for training_set, seeds in ((DEFAULT, (TUNING_SEED, *FRESH_SEEDS)), (OTHER, FRESH_SEEDS[:2])):
        gained = second if training_set == DEFAULT else NOTHING
        for seed in seeds:
            points = [point(quarter, gained if quarter == 2 else NOTHING, NOTHING) for quarter in range(1, 5)]
            assert len(points) == QUARTERS
            write_document(
                tmp_path / f"I1_{training_set}_{seed}.json",
                ArmResult("I1", training_set, seed, "", points, 1500, 60.0),
            )
        write_document(prediction_path(tmp_path, training_set), Prediction(0.9, 10.0, -0.1, 384))
    return tmp_path


def test_a_set_is_judged_on_the_report_half_at_the_chosen_quarter(results: Path) -> None:
    found = {finding.training_set: finding for finding in set_findings(results)}
    assert list(found) == [DEFAULT, OTHER]
    assert found[DEFAULT].knn.value == 1.0  # the second quarter, and no image of the tuning half
    assert found[DEFAULT].probe.value == 0.0
    assert found[OTHER].knn.value == 0.0
    assert (found[DEFAULT].seeds, found[OTHER].seeds) == (5, 2)
    assert found[DEFAULT].helped and not found[OTHER].helped


def test_a_guess_is_compared_with_the_outcome(results: Path) -> None:
    """Both sets look as if adaptation would help; it did on one."""
    rows = {row[0]: row for row in prediction_rows(results)}
    assert rows[DEFAULT][-3:] == ["likely to help", f"better ({ARMS['I1'].title})", "right"]
    assert rows[OTHER][-3:] == ["likely to help", f"not better ({ARMS['I1'].title})", "wrong"]
