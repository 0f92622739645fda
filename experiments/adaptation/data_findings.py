"""How much data, and which: one arm on several training sets, and whether a guess beforehand was right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.adaptation.arms import ARMS, FRESH_SEEDS, TUNING_SEED
from experiments.adaptation.findings import best_quarter, change, curve, halves_of, over_seeds, read_results, read_start
from experiments.adaptation.runs import ArmResult, prediction_path
from experiments.adaptation.training_sets import ALL, CURATED, DEFAULT, PARTS
from panendofm.records.documents import read_document
from panendofm.records.evaluation import WORSE
from pretrain.adapt.judge import Difference
from pretrain.adapt.prediction import Prediction

# In the order of the table: by amount, then by kind.
SETS = (*(name for name in PARTS if name != DEFAULT and name.startswith(ALL)), ALL, CURATED, DEFAULT)
SETS += tuple(name for name in PARTS if name not in SETS)


@dataclass(frozen=True)
class SetFinding:
    """An arm on one training set, report half, against the recentered start of that set."""

    training_set: str
    arm: str
    images: int
    seeds: int
    knn: Difference
    probe: Difference

    @property
    def helped(self) -> bool:
        """As `pretrain adapt` calls it: one of the two gained beyond noise, and neither lost."""
        verdicts = [difference.verdict for difference in (self.knn, self.probe)]
        return WORSE not in verdicts and any(difference.low > 0 for difference in (self.knn, self.probe))


def set_findings(results: Path) -> list[SetFinding]:
    """Every arm that ran with fresh seeds on a training set, at the quarter that the tuning seed chose."""
    tuned = read_results(results, DEFAULT, [TUNING_SEED])
    default_start = read_start(results)
    found = []
    for training_set in SETS:
        for arm, runs in read_results(results, training_set, FRESH_SEEDS).items():
            best = best_quarter(curve(tuned[arm][0], default_start, halves_of(default_start)))
            found.append(_finding(results, training_set, runs, best))
    return found


def _finding(results: Path, training_set: str, runs: Sequence[ArmResult], quarter: int) -> SetFinding:
    start = read_start(results, training_set)
    halves = halves_of(start)
    knn, probe = (
        over_seeds(
            [change(run.points[quarter], start.recentered, measure) for run in runs], halves.groups, halves.report
        )
        for measure in ("knn", "probe")
    )
    return SetFinding(training_set, runs[0].arm, runs[0].images, len(runs), knn, probe)


def set_rows(results: Path) -> list[list[str]]:
    return [
        [
            found.training_set,
            f"{found.images:,}",
            ARMS[found.arm].title,
            str(found.seeds),
            found.knn.shown().replace(" points", ""),
            found.probe.shown().replace(" points", ""),
        ]
        for found in set_findings(results)
    ]


def prediction_rows(results: Path) -> list[list[str]]:
    """What was guessed from the start's features, and what came out."""
    rows = []
    for found in set_findings(results):
        path = prediction_path(results, found.training_set)
        if path.exists():
            guess = read_document(Prediction, path, "a prediction of the experiment")
            rows.append(
                [
                    found.training_set,
                    f"{guess.common_share:.2f}",
                    f"{guess.rankme:.0f} of {guess.width}",
                    f"{guess.uniformity:.2f}",
                    "likely to help" if guess.likely else "may not help",
                    f"{'better' if found.helped else 'not better'} ({ARMS[found.arm].title})",
                    "right" if guess.likely == found.helped else "wrong",
                ]
            )
    return rows
