"""A new loss is added in one place, and everybody who shows or checks losses knows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from engine_faults import add_a_loss
from engine_runs import metrics_of, run_ranks, words_of

from launch.report import write_report
from panendofm.runtime.config import load_config
from pretrain import PretrainConfig, joined_world
from pretrain.objective.dinov2 import DinoObjective
from pretrain.selftest import train


def test_a_new_loss_is_logged_in_the_total_and_in_the_curves(shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = words_of(run, shards, log__tensorboard="true", schedule__total="4 steps")
    run_ranks(words, 1, sabotage=add_a_loss)
    lines = metrics_of(run)
    parts = ("dino_global", "dino_local", "ibot", "koleo", "variance")
    for line in lines:
        assert line["variance"] > 0
        assert sum(line[name] for name in parts) == pytest.approx(line["total"], rel=1e-6)
    page = write_report(run).read_text()
    chart = page[page.index('aria-label="Parts of the loss"') :]
    legend = re.findall(r"</span>([^<]+)</li>", chart[: chart.index("</ul>")])
    assert legend == list(parts)


def test_the_self_test_compares_a_new_loss(shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DinoObjective, "further_losses", DinoObjective.further_losses)  # put back at the end
    add_a_loss()
    config = load_config(PretrainConfig, None, words_of(tmp_path / "run", shards, schedule__total="4 steps"))
    with joined_world("cpu", 60) as world:
        figures = train(config, world)
    assert len(figures.losses) == 4
    assert all(losses["variance"] is not None for losses in figures.losses)


def test_a_loss_that_is_switched_off_is_no_loss_that_is_not_finite(shards: Path, tmp_path: Path) -> None:
    config = load_config(PretrainConfig, None, words_of(tmp_path / "run", shards, objective__koleo_weight=0))
    with joined_world("cpu", 60) as world:
        figures = train(config, world)
    assert all("koleo" not in losses and None not in losses.values() for losses in figures.losses)
