"""The reference's training steps as objects of ours: shared by the tests of the objective."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from panendofm.backbone import Execution, vit_config
from pretrain.data.batch import Batch, make_batch
from pretrain.data.loader import LoadedBatch
from pretrain.objective.config import HeadConfig, ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.drop_path import DropPath
from pretrain.optimizer.config import OptimizerConfig
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.optimizer.step import Stepper
from pretrain.parallel.config import ShardingConfig
from pretrain.parallel.world import World
from pretrain.schedules import StepValues
from pretrain.sharding import make_mesh, shard_objective

OPTIMIZER = OptimizerConfig(layerwise_decay=0.9, patch_embed_lr_multiplier=0.2)
CLIP_NORM = 3.0
# Our losses under the names that the reference displays, and how often the displayed value fits into the optimized one.
DISPLAYED = {
    "dino_local": ("dino_local_crops_loss", 1),
    "dino_global": ("dino_global_crops_loss", 1),
    "koleo": ("koleo_loss", 2),
    "ibot": ("ibot_loss", 2),
}
HEAD = HeadConfig(prototypes=64, bottleneck=16, layers=3, hidden=48)
PATCH_HEAD = HeadConfig(prototypes=40, bottleneck=16, layers=3, hidden=48)


@dataclass
class GoldenStep:
    """One golden file."""

    arrays: dict[str, np.ndarray]
    config: ObjectiveConfig
    teacher_temperature: float

    def objective(self, execution: Execution | None = None, **changes: Any) -> DinoObjective:
        config = ObjectiveConfig(**{**vars(self.config), **changes})
        objective = DinoObjective(vit_config("vit_test"), config, execution)
        objective.student.load_state_dict(self.tensors("init/student/"))
        objective.teacher.load_state_dict(self.tensors("init/teacher/"))
        return objective

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): torch.from_numpy(v) for k, v in self.arrays.items() if k.startswith(prefix)}

    def batch(self, prefix: str) -> Batch:
        x = self.tensors(prefix + "input/")
        return make_batch(x["collated_global_crops"], x["collated_local_crops"], x["collated_masks"])

    def losses(self, prefix: str) -> dict[str, float]:
        """The optimized losses: the reference displays half of koleo and ibot."""
        shown = {ours: float(self.arrays[f"{prefix}loss/{name}"]) * n for ours, (name, n) in DISPLAYED.items()}
        return {**shown, "total": sum(shown.values())}

    def norms(self, step: int = 0) -> dict[str, float]:
        return {k: float(v) for k, v in self.tensors(f"step{step}/grad_norm/").items()}

    @property
    def values(self) -> StepValues:
        return StepValues(
            lr=1e-3, last_layer_lr=1e-3, weight_decay=0.04, momentum=0.99, teacher_temperature=self.teacher_temperature
        )


def load_golden(folder: Path, name: str) -> GoldenStep:
    arrays = dict(np.load(folder / f"{name}.npz"))
    shared = "shared" in name
    config = ObjectiveConfig(
        dino_head=HEAD,
        ibot_head=PATCH_HEAD,
        separate_ibot_head=not shared,
        targets="centering" if "centering" in name else "sinkhorn",
    )
    return GoldenStep(arrays, config, 0.06 if shared else 0.05)


def optimizer_of(objective: DinoObjective) -> torch.optim.AdamW:
    return build_optimizer(objective.student, OPTIMIZER)


def stepper_of(objective: DinoObjective, world: World, param_type: torch.dtype | None = None) -> Stepper:
    """What a run steps with: networks sharded over its ranks, fused AdamW."""
    objective.to(world.device)
    mesh = make_mesh(ShardingConfig(), world.size, world.size, world.device.type)
    shard_objective(objective, mesh, param_type)
    drop_path = DropPath(objective.student["backbone"].config, microgroup_images=1, local_crops=0, seed=0)
    return Stepper(objective, optimizer_of(objective), CLIP_NORM, drop_path, world)


def loaded(batch: Batch, step: int = 0) -> LoadedBatch:
    """A batch as the loader hands it over."""
    return LoadedBatch(step, range(batch.microgroups), batch, [], [])


def whole(tensor: Tensor) -> Tensor:
    """A tensor that may be sharded, put together."""
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().clone()


def relative(a: Tensor, b: Tensor) -> float:
    """max|a − b| / max|b|."""
    return float((a - b).abs().max() / b.abs().max().clamp_min(1e-30))


def assert_losses(
    losses: dict[str, Tensor] | dict[str, float], golden: dict[str, float], tolerance: float = 1e-5
) -> None:
    assert losses.keys() == golden.keys()
    for name, value in golden.items():
        loss = losses[name].item() if isinstance(losses[name], Tensor) else losses[name]
        assert abs(loss - value) <= tolerance * abs(value), (name, loss, value)


def assert_close(found: dict[str, Tensor], golden: dict[str, Tensor], tolerance: float) -> float:
    """Every tensor within `tolerance`, relative to its largest value; the largest error of all."""
    assert found.keys() == golden.keys()
    errors = {name: relative(found[name], golden[name]) for name in golden}
    worst = max(errors, key=lambda name: errors[name])
    assert errors[worst] <= tolerance, (worst, errors[worst])
    return errors[worst]


def without_key_bias(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The key third of qkv.bias has a true gradient of zero, so AdamW turns its rounding noise into full steps."""
    result = {}
    for name, tensor in state.items():
        if name.endswith("attn.qkv.bias"):
            query, _, value = tensor.chunk(3)
            tensor = torch.cat([query, value])
        result[name] = tensor
    return result
