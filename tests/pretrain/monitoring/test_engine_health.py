"""Figures that show a collapse, on features whose spread is known; what measures runs in the type that trains."""

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from engine_runs import write_classes
from golden_steps import GoldenStep, load_golden

from eval_knn import EvalConfig
from panendofm.backbone import Preprocessing
from panendofm.records.run import RunFolder
from pretrain.config import MonitorConfig
from pretrain.monitoring.health import collapse_metrics
from pretrain.monitoring.monitor import Monitor
from pretrain.parallel.world import joined_world


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
        autocast=lambda device: nullcontext(),
    )
    batch = SimpleNamespace(global_crops=torch.zeros(4))
    figures = collapse_metrics(objective, batch, 0.1)  # type: ignore[arg-type]
    assert figures["teacher_entropy"] == pytest.approx(teacher, abs=1e-6)
    assert figures["prototype_entropy"] == pytest.approx(prototypes, abs=1e-6)
    assert (figures["rank_me"], figures["dino_targets_center_norm"]) == (pytest.approx(4), pytest.approx(5))
    assert "ibot_targets_center_norm" not in figures


def test_figures_of_broken_features_are_no_numbers() -> None:
    objective = SimpleNamespace(
        teacher={"backbone": lambda crops: SimpleNamespace(cls=crops), "dino_head": lambda cls: cls},
        dino_targets=None,
        ibot_targets=None,
        autocast=lambda device: nullcontext(),
    )
    batch = SimpleNamespace(global_crops=torch.full((4, 8), math.nan))
    assert math.isnan(collapse_metrics(objective, batch, 0.1)["rank_me"])  # type: ignore[arg-type]


@pytest.fixture
def half_precision_attention(monkeypatch: pytest.MonkeyPatch) -> list[torch.dtype]:
    """Attention as the fused kernels of a GPU are: fp32 is refused. The types that it was asked for."""
    plain, asked = F.scaled_dot_product_attention, []

    def attention(q: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
        asked.append(q.dtype)
        if q.dtype == torch.float32:
            raise RuntimeError("this attention knows half precision only")
        return plain(q, *rest, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", attention)
    return asked


@pytest.fixture
def step(golden: Path) -> GoldenStep:
    return load_golden(golden, "step_sinkhorn_separate_heads")


def test_collapse_figures_run_in_the_type_that_trains(
    step: GoldenStep, half_precision_attention: list[torch.dtype]
) -> None:
    objective, batch = step.objective(compute_type="bfloat16"), step.batch("step0/")
    objective(batch, 0.05)  # a step itself
    figures = collapse_metrics(objective, batch, 0.05)
    assert set(half_precision_attention) == {torch.bfloat16}
    assert figures["rank_me"] > 1


def test_inline_knn_runs_in_the_type_that_trains(
    step: GoldenStep, half_precision_attention: list[torch.dtype], tmp_path: Path
) -> None:
    classes = write_classes(tmp_path / "classes")
    evaluation = EvalConfig(cache=str(tmp_path / "cache"), ks=[1, 3])
    evaluation.data.path, evaluation.selection.metric = str(classes), "top1_k3"
    with joined_world("cpu", 60) as world:
        monitor = Monitor(MonitorConfig(mode="inline", evaluation=evaluation), RunFolder(tmp_path / "run"), world)
        objective = step.objective(compute_type="bfloat16")
        (document,) = monitor.evaluate(7, objective, Preprocessing(resize_px=56, crop_px=56), None)
    assert document.step == 7
    assert set(half_precision_attention) == {torch.bfloat16}
