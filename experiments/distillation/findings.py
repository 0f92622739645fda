"""What the kept results say: a table of all networks, and one of differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.adaptation.findings import over_seeds
from experiments.adaptation.runs import decode_hits
from experiments.distillation.arms import ALONE, CUT, DISTILLED, SEEDS, STEPS, STUDENTS
from experiments.distillation.runs import RESULTS, Images, Result, Timing
from panendofm.records.documents import read_document
from panendofm.reports import Table, markdown
from pretrain.adapt.judge import Difference

MEASURES = ("kNN", "probe", "mask IoU")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Values:
    """A measure of each image [N], and the images' near-duplicate groups [N]."""

    values: Floats
    groups: NDArray[np.int64]


def measured(result: Result, measure: str, images: Images) -> Values:
    if measure == "mask IoU":
        return Values(np.array(result.masks.iou.split(), float), np.array(result.masks.groups.split(), np.int64))
    hits = decode_hits(result.point.knn if measure == "kNN" else result.point.probe)
    return Values(hits.astype(np.float64), np.array(images.groups.split(), np.int64))


@dataclass(frozen=True)
class Findings:
    """The results of a folder, by name."""

    folder: Path = RESULTS

    @property
    def images(self) -> Images:
        return read_document(Images, self.folder / "images.json", "the labeled images of the experiment")

    def timing(self, student: str) -> Timing:
        return read_document(Timing, self.folder / f"timing_{student}.json", "the timing of the experiment")

    def of(self, name: str) -> list[Result]:
        """One result of a reference; of an arm with `{seed}` in its name, those of the seeds that have finished."""
        names = [name.format(seed=seed) for seed in SEEDS] if "{seed}" in name else [name]
        paths = [self.folder / f"{one}.json" for one in names]
        return [read_document(Result, path, "a result of the experiment") for path in paths if path.exists()]

    def estimate(self, name: str, measure: str, against: str | None = None) -> Difference | None:
        """The mean of a measure over seeds and images, or its difference to another network's, seed by seed."""
        own = [measured(result, measure, self.images) for result in self.of(name)]
        if not own:
            return None
        rows = [one.values for one in own]
        if against is not None:
            others = [measured(result, measure, self.images).values for result in self.of(against)]
            others = others * len(rows) if "{seed}" not in against else others
            if len(others) < len(rows):
                rows = rows[: len(others)]
            if not rows:
                return None
            rows = [row - other for row, other in zip(rows, others, strict=False)]
        return over_seeds(rows, own[0].groups, np.ones(len(rows[0]), bool))


def arm(student: str, method: str, step: int) -> str:
    return f"{student}_{method}_{{seed}}_{step}"


def tables(folder: Path) -> str:
    findings = Findings(folder)
    return f"{markdown(networks_table(findings))}\n\n{markdown(differences_table(findings))}"


def networks_table(findings: Findings) -> Table:
    named = [("teacher", "teacher: 8 blocks, width 384"), ("first_blocks", "its first 4 blocks, nothing trained")]
    for student in STUDENTS:
        later = findings.timing(student).equal_time_step
        named += [(f"{student}_untrained", f"{student}: random weights")]
        named += [(arm(student, DISTILLED, STEPS), f"{student}: distilled, {STEPS} steps")]
        named += [(arm(student, ALONE, STEPS), f"{student}: alone, {STEPS} steps")]
        named += [(arm(student, ALONE, later), f"{student}: alone, equal time ({later} steps)")]
    named += [(arm("depth4", CUT, STEPS), f"depth4: distilled from the first 4 blocks, {STEPS} steps")]
    rows = []
    for name, title in named:
        cells = [findings.estimate(name, measure) for measure in MEASURES]
        rows.append([title, str(len(findings.of(name))), *(_share(cell) for cell in cells)])
    return Table(["network", "runs", *MEASURES], rows)


def differences_table(findings: Findings) -> Table:
    pairs: list[tuple[str, str, str]] = []
    for student in STUDENTS:
        distilled = arm(student, DISTILLED, STEPS)
        later = findings.timing(student).equal_time_step
        pairs += [
            (f"{student}: distilled − alone, equal steps", distilled, arm(student, ALONE, STEPS)),
            (f"{student}: distilled − alone, equal time", distilled, arm(student, ALONE, later)),
            (f"{student}: distilled − teacher", distilled, "teacher"),
        ]
    cut = arm("depth4", CUT, STEPS)
    pairs += [
        ("depth4: distilled from the first 4 blocks − those blocks", cut, "first_blocks"),
        ("depth4: distilled from the first 4 blocks − teacher", cut, "teacher"),
    ]
    rows = [[title, *_points([findings.estimate(a, measure, b) for measure in MEASURES])] for title, a, b in pairs]
    return Table(["difference in points", *MEASURES], rows)


def _share(found: Difference | None) -> str:
    return "–" if found is None else f"{found.value:.3f} ({found.low:.3f}–{found.high:.3f})"


def _points(cells: Sequence[Difference | None]) -> list[str]:
    shown = []
    for cell in cells:
        text = "–" if cell is None else f"{100 * cell.value:+.1f} ({100 * cell.low:+.1f} to {100 * cell.high:+.1f})"
        shown.append(text)
    return shown
