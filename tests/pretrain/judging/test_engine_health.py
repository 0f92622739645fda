"""Figures that show a collapse, on features whose spread is known."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from pretrain.judging.health import collapse_figures, rank_me


def test_rank_me_counts_directions() -> None:
    assert rank_me(torch.eye(6)) == pytest.approx(6)
    assert rank_me(torch.outer(torch.arange(1.0, 9.0), torch.ones(4))) == pytest.approx(1, abs=1e-6)
    assert rank_me(torch.cat([torch.eye(6)[:3]] * 5)) == pytest.approx(3, abs=1e-4)
    assert math.isnan(rank_me(torch.zeros(3, 4)))


@pytest.mark.parametrize(
    ("scores", "teacher", "prototypes"),
    [
        (torch.zeros(4, 8), math.log(8), math.log(8)),  # no opinion
        (torch.eye(4, 8) * 1e4, 0.0, math.log(4)),  # sure, and each of another prototype
        (torch.eye(1, 8).expand(4, 8) * 1e4, 0.0, 0.0),  # all share one: collapsed
    ],
)
def test_entropies(scores: torch.Tensor, teacher: float, prototypes: float) -> None:
    objective = SimpleNamespace(
        teacher={"backbone": lambda crops: SimpleNamespace(cls=torch.eye(4)), "dino_head": lambda cls: scores},
        dino_targets=SimpleNamespace(center=torch.tensor([3.0, 4.0])),
        ibot_targets=SimpleNamespace(),
    )
    figures = collapse_figures(objective, SimpleNamespace(global_crops=None), 0.1)  # type: ignore[arg-type]
    assert figures["teacher_entropy"] == pytest.approx(teacher, abs=1e-6)
    assert figures["prototype_entropy"] == pytest.approx(prototypes, abs=1e-6)
    assert (figures["rank_me"], figures["dino_targets_center_norm"]) == (pytest.approx(4), pytest.approx(5))
    assert "ibot_targets_center_norm" not in figures
