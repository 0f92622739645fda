"""The known traps of DINOv2, one check each.

Every trap is tested twice: the check passes as the code stands, and it fails when the trap is put back by a patch. A
check that could not fail would show up here.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import golden_steps
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from golden_steps import CLIP_NORM, HEAD, PATCH_HEAD, load_golden, optimizer_of, relative
from torch import Tensor

import pretrain.data.augment.params
import pretrain.data.batch
import pretrain.data.masking
import pretrain.objective.dinov2
import pretrain.objective.losses
import pretrain.objective.starting_weights
import pretrain.objective.targets
import pretrain.optimizer.parameter_groups
import pretrain.optimizer.step
import pretrain.schedules
from panendofm.backbone import VisionTransformer, vit_config
from panendofm.runtime.errors import UserError
from pretrain.data.augment import AugmentConfig, draw_params
from pretrain.data.batch import collate, make_batch
from pretrain.objective.config import ObjectiveConfig
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.heads import PrototypeLayer
from pretrain.objective.targets import Centering, SinkhornKnopp
from pretrain.optimizer.parameter_groups import Multipliers, set_step_values
from pretrain.schedules import ScheduleConfig, resolve_schedule

Patch = pytest.MonkeyPatch


# The checks. Each raises AssertionError when its trap is there.


def check_golden_losses_and_gradients(golden: Path) -> None:
    for name in ("step_sinkhorn_separate_heads", "step_centering_shared_head_2steps"):
        step = load_golden(golden, name)
        objective = step.objective()
        losses = objective(step.batch("step0/"), step.teacher_temperature)
        golden_steps.assert_losses(losses, step.losses("step0/"))
        losses["total"].backward()
        gradients = step.tensors("step0/grad/")
        for parameter_name, parameter in objective.student.named_parameters():
            assert parameter.grad is not None, parameter_name
            assert relative(parameter.grad, gradients[parameter_name]) < 1e-4, parameter_name


def check_golden_update(golden: Path) -> None:
    """Clip, AdamW and EMA from the golden gradients: where a missing weight decay shows."""
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    objective, gradients, final = step.objective(), step.tensors("step0/grad/"), step.tensors("final/student/")
    init, optimizer = step.tensors("init/student/"), optimizer_of(objective)
    for name, parameter in objective.student.named_parameters():
        parameter.grad = gradients[name].clone()
    pretrain.optimizer.step.clip_per_submodule(objective.student, CLIP_NORM)
    set_step_values(optimizer, step.values)
    optimizer.step()
    for name, parameter in objective.student.named_parameters():
        assert (parameter - final[name]).norm() < 1e-4 * (final[name] - init[name]).norm(), name


def check_clipped_norms(golden: Path) -> None:
    """AdamW's first step hardly sees the scale of a gradient, so the clipped gradients themselves are compared."""
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    objective, gradients = step.objective(), step.tensors("step0/grad/")
    for name, parameter in objective.student.named_parameters():
        parameter.grad = gradients[name].clone()
    pretrain.optimizer.step.clip_per_submodule(objective.student, CLIP_NORM)
    for submodule, norm in step.norms().items():
        after = torch.nn.utils.get_total_norm([p.grad for p in objective.student[submodule].parameters()])
        assert after.item() == pytest.approx(min(norm, CLIP_NORM), rel=1e-4)


def check_logged_is_optimized(golden: Path) -> None:
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    losses = step.objective()(step.batch("step0/"), step.teacher_temperature)
    total = losses.pop("total")
    assert total.item() == pytest.approx(sum(loss.item() for loss in losses.values()), rel=1e-6)


def check_sinkhorn_over_ranks(golden: Path) -> None:
    """Two ranks (threads here, processes in test_several_ranks.py) against all samples at once."""
    scores = torch.randn(10, 24, generator=torch.Generator().manual_seed(0))
    expected = SinkhornKnopp()(scores.clone(), 0.1)
    found = on_two_threads(lambda rank: SinkhornKnopp()(scores[5 * rank : 5 * rank + 5], 0.1))
    assert relative(torch.cat(found), expected) < 1e-5


def check_blur_rates(golden: Path) -> None:
    sigma = np.stack([draw_params(AugmentConfig(), 256, 256, 0, 0, i).blur_sigma_px for i in range(300)])
    rates = (sigma > 0).mean(axis=0)
    assert rates[0] == 0 and rates[1] > 0.8 and abs(rates[2:].mean() - 0.5) < 0.1


def check_heads_have_their_own_sizes(golden: Path) -> None:
    config = ObjectiveConfig()
    assert (config.dino_head.bottleneck, config.ibot_head.bottleneck) == (384, 256)
    small = ObjectiveConfig(dino_head=replace(HEAD, bottleneck=24), ibot_head=PATCH_HEAD)
    student = DinoObjective(vit_config("vit_test"), small).student
    assert student["dino_head"].last_layer.weight_v.shape == (64, 24)
    assert student["ibot_head"].last_layer.weight_v.shape == (40, 16)


def check_mask_statistics(golden: Path) -> None:
    rng = np.random.default_rng(0)
    expected = json.loads((golden / "mask_statistics_16x16.json").read_text())["102"]
    counts = np.array([pretrain.data.masking.block_mask(102, (16, 16), rng).sum() for _ in range(1500)])
    assert abs(counts.mean() - expected["mean"]) < 4 * expected["std"] / math.sqrt(1000)


def check_crop_major(golden: Path) -> None:
    def crops(image: int) -> list[np.ndarray]:
        return [np.full((2, 2, 3), 10 * image + crop, np.uint8) for crop in range(2)]

    batch = collate([(crops(image), crops(image)) for image in range(3)], np.zeros((6, 4), dtype=bool))
    assert batch.global_crops[:, 0, 0, 0].tolist() == [0, 10, 20, 1, 11, 21]


def check_official_epochs(golden: Path) -> None:
    expected = np.load(golden / "schedules_vitl14_64gpus.npz")
    schedule = resolve_schedule(ScheduleConfig(), 64 * 32, corpus_images=10_000_000)
    assert schedule.total_steps == expected["total_iterations"]
    found = [schedule.at(int(i)).lr for i in expected["iteration"]]
    assert np.allclose(found, expected["lr"], rtol=1e-9)


def gradient_norm_of_duplicates(golden: Path, compute_type: str) -> float:
    """The backbone's gradient norm on a batch of four equal images."""
    step = load_golden(golden, "step_sinkhorn_separate_heads")
    batch = step.batch("step0/")
    first = [x.unflatten(0, (-1, 4))[:, :1] for x in (batch.global_crops, batch.local_crops, batch.masks)]
    same = make_batch(*(x.expand(-1, 4, *x.shape[2:]).flatten(0, 1) for x in first))
    objective = step.objective(compute_type=compute_type)
    losses = objective(same, step.teacher_temperature)
    losses["total"].backward()
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert all(torch.isfinite(p.grad).all() for p in objective.student.parameters())
    return torch.nn.utils.get_total_norm([p.grad for p in objective.student["backbone"].parameters()]).item()


def check_duplicates_in_half_precision(golden: Path) -> None:
    exact = gradient_norm_of_duplicates(golden, "float32")
    assert gradient_norm_of_duplicates(golden, "bfloat16") == pytest.approx(exact, rel=0.05)


def check_other_weights_are_refused(weights: dict[str, Tensor], ffn: str) -> None:
    config = ObjectiveConfig(dino_head=HEAD, ibot_head=PATCH_HEAD)
    objective = DinoObjective(vit_config("vit_test", ffn=ffn), config)
    try:
        pretrain.objective.starting_weights.start_from(objective, weights)
    except UserError as error:
        assert "do not fit the backbone" in str(error)
    else:
        raise AssertionError("weights that do not fit were taken in silence")


def check_swiglu_recipe_on_released_weights(golden: Path) -> None:
    check_other_weights_are_refused(VisionTransformer(vit_config("vit_test")).state_dict(), ffn="swiglu")


def check_chunked_keys(golden: Path) -> None:
    weights = VisionTransformer(vit_config("vit_test")).state_dict()
    chunked = {k.replace("blocks.", "blocks.0.") if k.startswith("blocks.") else k: v for k, v in weights.items()}
    check_other_weights_are_refused(chunked, ffn="mlp")


def check_randomness_of_a_resumed_run(golden: Path) -> None:
    """A resumed run draws what it would have drawn; later epochs, steps and other ranks draw something else."""

    def drawn(epoch: int, step: int, rank: int) -> tuple[bytes, bytes]:
        masks = pretrain.data.masking.masks_of_step(pretrain.data.masking.MaskConfig(), 8, (16, 16), 0, step, rank)
        return masks.tobytes(), draw_params(AugmentConfig(), 256, 256, 0, epoch, "key").boxes.tobytes()

    first = drawn(0, 3, 0)
    np.random.seed(0)  # what a restarted process does
    torch.manual_seed(0)
    assert drawn(0, 3, 0) == first
    assert drawn(0, 4, 0)[0] != first[0] and drawn(0, 3, 1)[0] != first[0] and drawn(1, 3, 0)[1] != first[1]


# The traps, put back.


def invert_blur(patch: Patch) -> None:
    documented = pretrain.data.augment.params.BLUR_PROBABILITIES["as_documented"]
    patch.setitem(pretrain.data.augment.params.BLUR_PROBABILITIES, "as_released", documented)


def freeze_weight_g(patch: Patch) -> None:
    def prototypes(layer: PrototypeLayer) -> Tensor:
        return F.normalize(layer.weight_v, dim=1) * layer.weight_g.detach()

    patch.setattr(PrototypeLayer, "prototypes", prototypes)


def leave_tokens_undecayed(patch: Patch) -> None:
    real = pretrain.optimizer.parameter_groups.multipliers_of

    def undecayed(name: str, *rest: Any) -> Multipliers:
        is_token = "token" in name or "pos_embed" in name
        return real(name, *rest)._replace(weight_decay=0.0) if is_token else real(name, *rest)

    patch.setattr(pretrain.optimizer.parameter_groups, "multipliers_of", undecayed)


def leave_weight_g_undecayed(patch: Patch) -> None:
    real = pretrain.optimizer.parameter_groups.multipliers_of

    def undecayed(name: str, *rest: Any) -> Multipliers:
        return real(name, *rest)._replace(weight_decay=0.0) if "weight_g" in name else real(name, *rest)

    patch.setattr(pretrain.optimizer.parameter_groups, "multipliers_of", undecayed)


def clip_all_at_once(patch: Patch) -> None:
    at_once = torch.nn.utils.clip_grad_norm_
    patch.setattr(pretrain.optimizer.step, "clip_per_submodule", lambda m, norm: at_once(m.parameters(), norm))


def keep_cls_unswapped(patch: Patch) -> None:
    real = pretrain.objective.dinov2.dino_global
    patch.setattr(pretrain.objective.dinov2, "dino_global", lambda targets, *rest: real(targets.flip(0), *rest))


def divide_ibot_by_masked_crops(patch: Patch) -> None:
    real = pretrain.objective.dinov2.ibot
    patch.setattr(pretrain.objective.dinov2, "ibot", lambda t, w, crops, weight: real(t, w, float(w.sum()), weight))


def log_halves(patch: Patch) -> None:
    real = DinoObjective.forward

    def forward(self: DinoObjective, *arguments: Any) -> dict[str, Tensor]:
        losses = real(self, *arguments)
        return {**losses, "koleo": losses["koleo"] / 2, "ibot": losses["ibot"] / 2}

    patch.setattr(DinoObjective, "forward", forward)


def sum_rows_locally(patch: Patch) -> None:
    patch.setattr(pretrain.objective.targets, "_logsumexp_over_ranks", lambda x: x)


def move_center_at_once(patch: Patch) -> None:
    real = Centering.forward

    def forward(self: Centering, scores: Tensor, temperature: float) -> Tensor:
        self._move_center(scores.detach().float())
        return real(self, scores, temperature)

    patch.setattr(Centering, "forward", forward)


def share_center(patch: Patch) -> None:
    """One center for cls tokens and patches of a shared head."""
    real = DinoObjective.__init__

    def init(self: DinoObjective, *arguments: Any) -> None:
        real(self, *arguments)
        self.ibot_targets = self.dino_targets

    patch.setattr(DinoObjective, "__init__", init)


def size_ibot_head_as_dino_head(patch: Patch) -> None:
    real = pretrain.objective.dinov2.ProjectionHead
    first: list[Any] = []

    def head(width: int, config: Any) -> Any:
        first.append(config)
        return real(width, first[0])

    patch.setattr(pretrain.objective.dinov2, "ProjectionHead", head)


def change_positions(**changes: Any) -> Callable[[Patch], None]:
    def put_back(patch: Patch) -> None:
        patch.setattr(golden_steps, "vit_config", lambda name: vit_config(name, **changes))

    return put_back


def fill_masks_up(patch: Patch) -> None:
    real = pretrain.data.masking.block_mask

    def exact(target: int, grid: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        mask = real(target, grid, rng)
        free = np.flatnonzero(~mask.ravel())
        mask.ravel()[rng.choice(free, target - mask.sum(), replace=False)] = True
        return mask

    patch.setattr(pretrain.data.masking, "block_mask", exact)


def collate_image_major(patch: Patch) -> None:
    def image_major(crops: Any) -> Tensor:
        return torch.from_numpy(np.stack([crop for image in crops for crop in image])).permute(0, 3, 1, 2)

    patch.setattr(pretrain.data.batch, "_crop_major", image_major)


def count_epochs_in_data(patch: Patch) -> None:
    patch.setattr(pretrain.schedules, "OFFICIAL_EPOCH_STEPS", 10_000_000 // 2048)


def koleo_in_half_precision(patch: Patch) -> None:
    def koleo(features: Tensor, across_ranks: bool = False) -> Tensor:
        x = F.normalize(features.half(), dim=-1)
        similarity = x @ x.T
        similarity.fill_diagonal_(-2)
        return -torch.log(F.pairwise_distance(x, x[similarity.argmax(1)], eps=1e-8) + 1e-8).mean().float()

    patch.setattr(pretrain.objective.dinov2, "koleo_loss", koleo)


def koleo_pushes_the_same_frame_apart(patch: Patch) -> None:
    """The reference's fp32 form: finite, but its forces of 1e7 do not cancel after rounding to bf16."""
    patch.setattr(pretrain.objective.losses, "_SAME_FRAME_DISTANCE", 0.0)


def load_what_fits(patch: Patch) -> None:
    def lenient(objective: DinoObjective, weights: dict[str, Tensor], new_registers: bool = False) -> None:
        own = objective.student["backbone"].state_dict()
        fitting = {k: v for k, v in weights.items() if k in own and own[k].shape == v.shape}
        objective.student["backbone"].load_state_dict(fitting, strict=False)

    patch.setattr(pretrain.objective.starting_weights, "start_from", lenient)


def seed_by_the_run_alone(patch: Patch) -> None:
    patch.setattr(pretrain.data.masking, "numpy_generator", lambda seed, *rest: np.random.default_rng(seed))


def draw_from_the_process(patch: Patch) -> None:
    state = np.random.default_rng(0)
    patch.setattr(pretrain.data.masking, "numpy_generator", lambda *parts: state)


@dataclass
class ThreadRanks:
    """Collectives between two threads."""

    def __post_init__(self) -> None:
        self.barrier, self.values, self.here = threading.Barrier(2, timeout=30), [None, None], threading.local()

    def reduce(self, x: Tensor, how: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        self.values[self.here.rank] = x.clone()
        self.barrier.wait()
        result = how(*self.values)
        self.barrier.wait()
        return x.copy_(result)


def on_two_threads(work: Callable[[int], Tensor]) -> list[Tensor]:
    ranks, results = ThreadRanks(), [torch.empty(0), torch.empty(0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pretrain.objective.targets, "world_size", lambda: 2)
        patch.setattr(pretrain.objective.targets, "sum_over_ranks", lambda x: ranks.reduce(x, torch.add))
        patch.setattr(pretrain.objective.targets, "max_over_ranks", lambda x: ranks.reduce(x, torch.maximum))

        def run(rank: int) -> None:
            ranks.here.rank = rank
            results[rank] = work(rank)

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


TRAPS: dict[str, tuple[Callable[[Path], None], Callable[[Patch], None]]] = {
    "inverted_blur": (check_blur_rates, invert_blur),
    "weight_g_is_trained": (check_golden_losses_and_gradients, freeze_weight_g),
    "tokens_are_decayed": (check_golden_update, leave_tokens_undecayed),
    "weight_g_is_decayed": (check_golden_update, leave_weight_g_undecayed),
    "clipping_per_submodule": (check_clipped_norms, clip_all_at_once),
    "teacher_cls_swapped": (check_golden_losses_and_gradients, keep_cls_unswapped),
    "ibot_divided_by_2B": (check_golden_losses_and_gradients, divide_ibot_by_masked_crops),
    "logged_is_optimised": (check_logged_is_optimized, log_halves),
    "sinkhorn_rows_global": (check_sinkhorn_over_ranks, sum_rows_locally),
    "center_one_step_late": (check_golden_losses_and_gradients, move_center_at_once),
    "cls_and_patch_centers_apart": (check_golden_losses_and_gradients, share_center),
    "ibot_bottleneck_beside_dinos": (check_heads_have_their_own_sizes, size_ibot_head_as_dino_head),
    "position_offset": (check_golden_losses_and_gradients, change_positions(position_offset=0.0)),
    "position_antialias": (check_golden_losses_and_gradients, change_positions(position_antialias=True)),
    "masks_fall_short": (check_mask_statistics, fill_masks_up),
    "crop_major_collation": (check_crop_major, collate_image_major),
    "official_epoch_is_1250_steps": (check_official_epochs, count_epochs_in_data),
    "koleo_in_half_precision": (check_duplicates_in_half_precision, koleo_in_half_precision),
    "koleo_force_between_duplicates": (check_duplicates_in_half_precision, koleo_pushes_the_same_frame_apart),
    "swiglu_is_not_released": (check_swiglu_recipe_on_released_weights, load_what_fits),
    "chunked_keys": (check_chunked_keys, load_what_fits),
    "resume_reseeds": (check_randomness_of_a_resumed_run, draw_from_the_process),
    "every_rank_draws_the_same": (check_randomness_of_a_resumed_run, seed_by_the_run_alone),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_trap_is_avoided(golden: Path, trap: str) -> None:
    check, _ = TRAPS[trap]
    check(golden)


@pytest.mark.parametrize("trap", TRAPS)
def test_trap_put_back_is_caught(golden: Path, trap: str, monkeypatch: Patch) -> None:
    check, put_back = TRAPS[trap]
    put_back(monkeypatch)
    with pytest.raises(AssertionError):
        check(golden)
