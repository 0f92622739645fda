"""Our training step against the reference's, number by number."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from golden_steps import (
    CLIP_NORM,
    assert_close,
    assert_losses,
    load_golden,
    loaded,
    optimizer_of,
    stepper_of,
    whole,
    without_key_bias,
)
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from panendofm.backbone import Execution
from pretrain import sharding
from pretrain.optimizer.clipping import clip_per_submodule
from pretrain.optimizer.parameter_groups import set_step_values
from pretrain.parallel.world import joined_world

ONE_RANK = {"step_sinkhorn_separate_heads": 1, "step_centering_shared_head_2steps": 2}


@pytest.mark.parametrize("name", ONE_RANK)
def test_losses_and_gradients(golden: Path, name: str) -> None:
    step = load_golden(golden, name)
    objective = step.objective()
    losses = objective(step.batch("step0/"), step.teacher_temperature)
    losses["total"].backward()
    assert_losses(losses, step.losses("step0/"))
    gradients = {n: p.grad for n, p in objective.student.named_parameters()}
    assert_close(gradients, step.tensors("step0/grad/"), 1e-4)
    norms = clip_per_submodule(objective.student, CLIP_NORM)
    assert norms.keys() == step.norms().keys()
    for submodule, norm in step.norms().items():
        assert float(norms[submodule]) == pytest.approx(norm, rel=1e-5)
        after = torch.nn.utils.get_total_norm([p.grad for p in objective.student[submodule].parameters()])
        assert float(after) == pytest.approx(min(norm, CLIP_NORM), rel=1e-4)
    assert all(p.grad is None for p in objective.teacher.parameters())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_compiled_blocks_give_the_references_losses_and_gradients(golden: Path) -> None:
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    objective = step.objective(Execution(compile=True))
    losses = objective(step.batch("step0/"), step.teacher_temperature)
    losses["total"].backward()
    assert_losses(losses, step.losses("step0/"))
    assert_close({n: p.grad for n, p in objective.student.named_parameters()}, step.tensors("step0/grad/"), 1e-4)


@pytest.mark.parametrize("name", ONE_RANK)
def test_weights_after_all_steps(golden: Path, name: str) -> None:
    """The step of a run: sharded networks, fused AdamW, all ranks asked whether it is finite."""
    step = load_golden(golden, name)
    objective = step.objective()
    with joined_world("cpu", 60) as world:
        stepper = stepper_of(objective, world)
        for i in range(ONE_RANK[name]):
            result = stepper.run([loaded(step.batch(f"step{i}/"), i)], step.values).read()
            assert not result.skipped
            assert_losses(result.losses, step.losses(f"step{i}/"))
            assert result.gradient_norms == pytest.approx(step.norms(i), rel=1e-5)
        for network in ("student", "teacher"):
            state = {n: whole(tensor) for n, tensor in getattr(objective, network).state_dict().items()}
            assert_close(without_key_bias(state), without_key_bias(step.tensors(f"final/{network}/")), 5e-4)


def test_one_rank_alone_is_spared_fsdp_and_steps_alike(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = load_golden(golden, "step_centering_shared_head_2steps")
    states = []
    with joined_world("cpu", 60) as world:
        for alone in (True, False):
            monkeypatch.setattr(sharding, "is_left_whole", lambda *_, alone=alone: alone)
            objective = step.objective()
            stepper = stepper_of(objective, world)
            assert isinstance(objective.student["backbone"], FSDPModule) is not alone
            for i in range(2):
                stepper.run([loaded(step.batch(f"step{i}/"), i)], step.values)
            states.append({n: whole(tensor) for n, tensor in objective.state_dict().items()})
    assert_close(without_key_bias(states[0]), without_key_bias(states[1]), 1e-5)


@pytest.mark.parametrize("name", [*ONE_RANK, "step_sinkhorn_2ranks"])
def test_update_from_golden_gradients(golden: Path, name: str) -> None:
    """Clip, AdamW and EMA alone, from the reference's gradients. Only this comparison sees a missing weight decay."""
    step = load_golden(golden, name)
    objective = step.objective()
    optimizer = optimizer_of(objective)
    for i in range(ONE_RANK.get(name, 1)):
        gradients = step.tensors(f"step{i}/grad/")
        for parameter_name, parameter in objective.student.named_parameters():
            parameter.grad = gradients[parameter_name].clone()
        clip_per_submodule(objective.student, CLIP_NORM)
        set_step_values(optimizer, step.values)
        optimizer.step()
        objective.update_teacher(step.values.momentum)
    for network in ("student", "teacher"):
        final, init = step.tensors(f"final/{network}/"), step.tensors(f"init/{network}/")
        for parameter_name, parameter in getattr(objective, network).state_dict().items():
            assert update_error(parameter, final[parameter_name], init[parameter_name]) < 1e-4, parameter_name


def update_error(found: Tensor, final: Tensor, init: Tensor) -> float:
    """‖found − final‖ / ‖final − init‖."""
    return float((found - final).norm() / (final - init).norm().clamp_min(1e-30))
