"""The rules of the distillation experiment, as its protocol states them, and the tables that its kept results give."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.adaptation.runs import Point
from experiments.distillation.arms import ALONE, DISTILLED, METHODS, SEEDS, STEPS, STUDENTS
from experiments.distillation.findings import Findings, arm, differences_table, networks_table
from experiments.distillation.runs import RECIPE, RESULTS, Images, Masks, Result, Timing
from experiments.distillation.synthetic import SyntheticResult
from panendofm.records.documents import read_document, write_document
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig


@pytest.mark.parametrize("student", STUDENTS)
@pytest.mark.parametrize("method", METHODS)
def test_arms_differ_in_their_method_alone(student: str, method: str) -> None:
    words = ["run.dir=x", "data.shards=x", "schedule.total=100 steps"]
    config = load_config(PretrainConfig, RECIPE, [*words, *STUDENTS[student], *METHODS[method]])
    assert (config.objective.kind == "distill") == (config.distill.teacher is not None) == (method != ALONE)
    assert config.schedule.shape == "constant", "else a run read early would be worth less than one that ends there"
    assert config.batch.images == 16


def test_equal_time_is_that_of_the_distilled_run() -> None:
    assert Timing(distilled=1.0, alone=2.0).equal_time_step == STEPS // 2
    assert Timing(distilled=3.0, alone=2.0).equal_time_step == STEPS * 3 // 2


def result(knn: str) -> Result:
    return Result(Point(STEPS, 0, knn, knn, 0.0, 0.0), Masks("0.5 0.7", "0 1"))


def test_differences_are_taken_seed_by_seed(tmp_path: Path) -> None:
    """A seed of which only one arm has finished does not count."""
    write_document(tmp_path / "images.json", Images("0 0 1 1", "0 1 2 3"))
    own, other = arm("depth4", DISTILLED, STEPS), arm("depth4", ALONE, STEPS)
    for seed, (distilled, alone) in zip(SEEDS, (("1111", "0000"), ("1100", "1000"), ("0000", None)), strict=True):
        write_document(tmp_path / f"{own.format(seed=seed)}.json", result(distilled))
        if alone is not None:
            write_document(tmp_path / f"{other.format(seed=seed)}.json", result(alone))
    findings = Findings(tmp_path)
    found = findings.estimate(own, "kNN", other)
    assert found is not None and found.value == pytest.approx((1.0 + 0.25) / 2)
    shares = findings.estimate(own, "kNN")
    assert shares is not None and shares.value == pytest.approx((1.0 + 0.5 + 0.0) / 3)
    assert findings.estimate(arm("width192", ALONE, STEPS), "kNN") is None


def test_the_kept_results_give_the_tables() -> None:
    """The README's tables are made of these files."""
    readme = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    for table in (networks_table(Findings()), differences_table(Findings())):
        for row in table.rows:
            assert "| " + " | ".join(map(str, row)) + " |" in readme, row
    kept = sorted(RESULTS.glob("synthetic_*.json"))
    assert kept
    for path in kept:
        found = read_document(SyntheticResult, path, "a result")
        assert f"| {found.seed} | {found.alone:.3f} | {found.distilled:.3f} | {found.difference.shown()} |" in readme
