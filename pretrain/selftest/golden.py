"""A training step of the reference implementation, computed again on this device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from panendofm.backbone import Execution, vit_config
from panendofm.records.metrics import TOTAL
from pretrain.data.batch import make_batch
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective

# The sizes that the file was made with.
_HEAD = HeadConfig(prototypes=64, bottleneck=16, layers=3, hidden=48)
_PATCH_HEAD = HeadConfig(prototypes=40, bottleneck=16, layers=3, hidden=48)
_TEACHER_TEMPERATURE = 0.05
# The reference displays each loss under a name of its own, two of them halved.
_LOSSES = {
    "dino_local": ("dino_local_crops_loss", 1),
    "dino_global": ("dino_global_crops_loss", 1),
    "koleo": ("koleo_loss", 2),
    "ibot": ("ibot_loss", 2),
}


def golden_step_errors(
    file: Path, device: torch.device, compute_type: Literal["float32", "bfloat16"], execution: Execution | None = None
) -> dict[str, float]:
    """How far losses and gradients are from the reference's, relative to them; the worst of each kind."""
    with np.load(file) as stored:
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
    config = ObjectiveConfig(dino_head=_HEAD, ibot_head=_PATCH_HEAD, compute_type=compute_type)
    objective = DinoObjective(vit_config("vit_test"), config, execution)
    objective.student.load_state_dict(_below(arrays, "init/student/"))
    objective.teacher.load_state_dict(_below(arrays, "init/teacher/"))
    objective.to(device)
    crops = _below(arrays, "step0/input/")
    batch = make_batch(crops["collated_global_crops"], crops["collated_local_crops"], crops["collated_masks"])
    losses = objective(batch.to(device), _TEACHER_TEMPERATURE)
    losses[TOTAL].backward()
    expected = {own: float(arrays[f"step0/loss/{name}"]) * times for own, (name, times) in _LOSSES.items()}
    gradients = _below(arrays, "step0/grad/")
    found = {name: p.grad.cpu() for name, p in objective.student.named_parameters() if p.grad is not None}
    missing = sorted(gradients.keys() - found.keys())
    if missing:
        raise RuntimeError(f"the step gave no gradient to '{missing[0]}'")
    return {
        "losses": max(abs(losses[name].item() - value) / abs(value) for name, value in expected.items()),
        "gradients": max(_error(found[name], gradient) for name, gradient in gradients.items()),
    }


def _below(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in arrays.items() if name.startswith(prefix)}


def _error(found: Tensor, expected: Tensor) -> float:
    """max|a − b| / max|b|; NaN counts as infinitely wrong."""
    error = float((found.float() - expected).abs().max() / expected.abs().max().clamp_min(1e-30))
    return error if error == error else float("inf")
