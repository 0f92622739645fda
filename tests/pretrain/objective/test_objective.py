"""The objective beside the golden numbers: unusual batches, half precision, drop path, options, starting weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from golden_steps import HEAD, PATCH_HEAD, GoldenStep, load_golden, loaded, stepper_of, whole
from torch import Tensor

from panendofm.backbone import VisionTransformer, vit_config
from panendofm.runtime.config import config_to_yaml, load_config
from panendofm.runtime.errors import UserError
from pretrain.data.batch import Batch, make_batch
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.drop_path import DropPath
from pretrain.objective.starting_weights import start_from
from pretrain.parallel.world import joined_world

TEMPERATURE = 0.05


@pytest.fixture(scope="module")
def step(golden: Path) -> GoldenStep:
    return load_golden(golden, "step_sinkhorn_separate_heads")


def small_objective(drop_path: float = 0.0, registers: int = 0, **changes: Any) -> DinoObjective:
    torch.manual_seed(0)
    config = ObjectiveConfig(dino_head=HEAD, ibot_head=PATCH_HEAD, **changes)
    return DinoObjective(vit_config("vit_test", drop_path=drop_path, registers=registers), config)


def batch_of(images: int, local_crops: int = 3, masked: int = 5, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    masks = torch.zeros(2 * images, 16, dtype=torch.bool)
    masks[::2, :masked] = True
    return make_batch(
        torch.randn(2 * images, 3, 56, 56, generator=generator),
        torch.randn(local_crops * images, 3, 28, 28, generator=generator),
        masks,
    )


def assert_all_finite(objective: DinoObjective, batch: Batch) -> dict[str, Tensor]:
    losses = objective(batch, TEMPERATURE)
    losses["total"].backward()
    assert all(torch.isfinite(loss) for loss in losses.values()), losses
    for name, parameter in objective.student.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
    return losses


@pytest.mark.parametrize("compute_type", ["float32", "bfloat16"])
@pytest.mark.parametrize("copies", [2, 4])
def test_duplicate_images_stay_finite(step: GoldenStep, compute_type: str, copies: int) -> None:
    """Frames of a video that stands still: identical crops under identical masks."""
    batch = step.batch("step0/")
    globals_, locals_ = (x.unflatten(0, (-1, 4)).clone() for x in (batch.global_crops, batch.local_crops))
    masks = batch.masks.unflatten(0, (2, 4)).clone()
    for x in (globals_, locals_, masks):
        x[:, 1:copies] = x[:, :1]
    duplicates = make_batch(globals_.flatten(0, 1), locals_.flatten(0, 1), masks.flatten(0, 1))
    losses = assert_all_finite(step.objective(compute_type=compute_type), duplicates)
    assert all(loss.dtype == torch.float32 for loss in losses.values())


def test_half_precision_is_near_fp32(step: GoldenStep) -> None:
    losses = step.objective(compute_type="bfloat16")(step.batch("step0/"), step.teacher_temperature)
    for name, value in step.losses("step0/").items():
        assert losses[name].item() == pytest.approx(value, rel=0.03), name


@pytest.mark.parametrize("targets", ["sinkhorn", "centering"])
@pytest.mark.parametrize("separate_ibot_head", [True, False])
def test_batch_without_masked_patches(targets: str, separate_ibot_head: bool) -> None:
    objective = small_objective(targets=targets, separate_ibot_head=separate_ibot_head)
    losses = assert_all_finite(objective, batch_of(3, masked=0))
    assert losses["ibot"].item() == 0
    if targets == "centering":
        assert not objective.ibot_targets.center.any() and objective.dino_targets.center.any()


def test_batch_without_local_crops() -> None:
    losses = assert_all_finite(small_objective(), batch_of(3, local_crops=0))
    assert losses["dino_local"].item() == 0 and losses["dino_global"].item() > 0


def test_one_image_is_refused_by_koleo_and_works_without() -> None:
    with pytest.raises(UserError, match=r"one image per rank has no neighbors for KoLeo; .* set koleo_weight=0"):
        small_objective()(batch_of(1), TEMPERATURE)
    losses = assert_all_finite(small_objective(koleo_weight=0.0), batch_of(1))
    assert "koleo" not in losses


def test_total_is_the_sum_of_what_is_logged(step: GoldenStep) -> None:
    """What is logged is what is optimized: along its gradient `total` changes as the sum of the logged losses does."""
    objective, batch = step.objective(gram_weight=1.0), step.batch("step0/")
    losses = objective(batch, TEMPERATURE)
    total = losses.pop("total")
    assert losses.keys() == {"dino_local", "dino_global", "ibot", "koleo", "gram"}
    torch.testing.assert_close(total, sum(losses.values()))
    weight = objective.student["backbone"].cls_token
    (gradient,) = torch.autograd.grad(total, weight)
    direction, moved = gradient / gradient.norm(), []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * 1e-2 * direction
            logged = objective(batch, TEMPERATURE)
            moved.append(sum(value.item() for name, value in logged.items() if name != "total"))
            weight -= sign * 1e-2 * direction
    assert (moved[0] - moved[1]) / 2e-2 == pytest.approx(gradient.norm().item(), rel=0.02)


def test_weights_scale_their_losses(step: GoldenStep) -> None:
    batch = step.batch("step0/")
    plain = step.objective()(batch, TEMPERATURE)
    scaled = step.objective(dino_weight=2.0, ibot_weight=3.0, koleo_weight=0.4)(batch, TEMPERATURE)
    factors = {"dino_local": 2, "dino_global": 2, "ibot": 3, "koleo": 4}
    for name, factor in factors.items():
        torch.testing.assert_close(scaled[name], factor * plain[name])


def test_drop_path_is_what_was_drawn_for_the_step() -> None:
    batch = batch_of(4)
    objective = small_objective(drop_path=0.5)
    with torch.no_grad():  # as after some training: at 1e-5 the branches would hardly count
        for block in objective.student["backbone"].blocks:
            block.ls1.gamma.fill_(0.5)
            block.ls2.gamma.fill_(0.5)
    drop_path = DropPath(objective.student["backbone"].config, microgroup_images=4, local_crops=3, seed=0)

    def total(step: int) -> float:
        drawn = drop_path.draw(1.0, step, range(1))
        return objective(batch, TEMPERATURE, drop_path=drawn)["total"].item()

    torch.manual_seed(1)
    first = total(3)
    torch.manual_seed(2)  # the global state plays no part
    assert total(3) == first and total(4) != first
    with pytest.raises(ValueError, match="needs the samples"):  # nothing is drawn in silence
        objective(batch, TEMPERATURE)


def test_teacher_stays_in_eval_and_gets_no_gradient() -> None:
    objective = small_objective(drop_path=0.5, gram_weight=1.0)
    objective.train()
    assert objective.student.training and objective.student["backbone"].config.drop_path == 0.5
    for frozen in (objective.teacher, objective.anchor_backbone):
        assert not any(m.training for m in frozen.modules())
        assert not any(p.requires_grad for p in frozen.parameters())
    assert objective.teacher["backbone"].config.drop_path == 0


def test_teacher_starts_as_the_student() -> None:
    objective = small_objective()
    student, teacher = objective.student.state_dict(), objective.teacher.state_dict()
    assert student.keys() == teacher.keys()
    assert all(torch.equal(student[k], teacher[k]) for k in student)
    assert student["dino_head.mlp.0.weight"].data_ptr() != teacher["dino_head.mlp.0.weight"].data_ptr()


# Beyond the reference: each is off by default.


def test_options_are_off_by_default(step: GoldenStep) -> None:
    config = ObjectiveConfig()
    assert config.gram_weight == 0 and not config.koleo_across_ranks and config.targets == "sinkhorn"
    assert step.objective().anchor_backbone is None


def test_anchor_backbone_is_zero_at_the_start_and_pulls_back_later() -> None:
    objective = small_objective(gram_weight=2.0, koleo_weight=0.0)
    batch = batch_of(3, masked=0)
    assert objective(batch, TEMPERATURE)["gram"].item() < 1e-9
    with torch.no_grad():
        for parameter in objective.student["backbone"].parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    drifted = objective(batch, TEMPERATURE)["gram"]
    assert drifted.item() > 1e-3
    optimizer = torch.optim.SGD(objective.student["backbone"].parameters(), lr=0.5)
    for _ in range(5):
        optimizer.zero_grad()
        objective(batch, TEMPERATURE)["gram"].backward()
        optimizer.step()
    assert objective(batch, TEMPERATURE)["gram"].item() < 0.9 * drifted.item()


def test_registers_from_scratch_on_weights_without_them(step: GoldenStep) -> None:
    torch.manual_seed(5)
    released = VisionTransformer(vit_config("vit_test")).state_dict()
    objective = small_objective(registers=4)
    with pytest.raises(UserError, match=r"1 keys are missing .such as 'register_tokens'."):
        start_from(objective, released)
    start_from(objective, released, new_registers=True)
    for network in (objective.student, objective.teacher):
        state = network["backbone"].state_dict()
        assert all(torch.equal(state[k], released[k]) for k in released)
        assert 0 < state["register_tokens"].abs().max() < 1e-4
    with pytest.raises(UserError, match="hold registers already"):
        start_from(objective, objective.student["backbone"].state_dict(), new_registers=True)
    with pytest.raises(UserError, match="needs a backbone with registers"):
        start_from(small_objective(), released, new_registers=True)
    before = objective.student["backbone"].register_tokens.detach().clone()
    with joined_world("cpu", 60) as world:
        stepper_of(objective, world).run([loaded(batch_of(3))], step.values)
        assert not torch.equal(whole(objective.student["backbone"].register_tokens), before)  # they train


# Starting weights and configuration.


def test_start_from_weights_sets_student_teacher_and_anchor() -> None:
    objective = small_objective(gram_weight=1.0)
    torch.manual_seed(9)
    weights = VisionTransformer(vit_config("vit_test")).state_dict()
    start_from(objective, weights)
    for backbone in (objective.student["backbone"], objective.teacher["backbone"], objective.anchor_backbone):
        assert all(torch.equal(v, weights[k]) for k, v in backbone.state_dict().items())


def test_weights_of_another_grid_are_refused() -> None:
    weights = VisionTransformer(vit_config("vit_test", image_px=84)).state_dict()
    with pytest.raises(UserError, match=r"'pos_embed' has the shape .1, 37, 32.*image_px=518"):
        start_from(small_objective(), weights)


def test_config_is_yaml_and_refuses_unknown_keys(tmp_path: Path) -> None:
    path = tmp_path / "objective.yaml"
    path.write_text("targets: centering\ndino_head: {prototypes: 64}\n")
    config = load_config(ObjectiveConfig, path)
    assert config.targets == "centering" and config.dino_head.prototypes == 64 and config.dino_head.bottleneck == 384
    path.write_text(config_to_yaml(config))
    assert load_config(ObjectiveConfig, path) == config
    with pytest.raises(UserError, match="did you mean 'koleo_weight'"):
        load_config(ObjectiveConfig, None, ["koleo_wieght=1"])
    with pytest.raises(UserError, match=r"'gram_weight' is -1\.0, but must be at least 0"):
        load_config(ObjectiveConfig, None, ["gram_weight=-1"])


def test_float16_which_would_need_loss_scaling_is_refused() -> None:
    with pytest.raises(UserError, match=r"'compute_type' must be float32\|bfloat16"):
        load_config(ObjectiveConfig, None, ["compute_type=float16"])


def test_koleo_looks_within_microgroups() -> None:
    """Two microgroups in one batch are what two ranks with one each would compute."""
    objective = small_objective()
    batch = batch_of(4)
    batch.microgroups = 2
    halves = []
    for group in range(2):
        images = torch.arange(4).view(2, 2)[group]
        crops = batch.global_crops.unflatten(0, (2, 4))[:, images].flatten(0, 1)
        local_crops = batch.local_crops.unflatten(0, (3, 4))[:, images].flatten(0, 1)
        masks = batch.masks.unflatten(0, (2, 4))[:, images].flatten(0, 1)
        halves.append(objective(make_batch(crops, local_crops, masks), TEMPERATURE)["koleo"])
    torch.testing.assert_close(objective(batch, TEMPERATURE)["koleo"], (halves[0] + halves[1]) / 2)
    batch.microgroups = 4
    with pytest.raises(UserError, match="no neighbors for KoLeo"):
        objective(batch, TEMPERATURE)
