"""The work of a whole step of the shipped recipes, counted operation by operation, against the plan's formula."""

from __future__ import annotations

import sys

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from panendofm.runtime.config import CONFIGS, load_config
from pretrain.config import PretrainConfig
from pretrain.data.batch import make_batch
from pretrain.objective.dinov2 import DinoObjective
from pretrain.objective.drop_path import DropPath
from pretrain.plan.rows import rows_of
from pretrain.plan.work import flops_per_image

RECIPES = ("panendofm_vitl14", pytest.param("panendofm_vitl14_reg4", marks=pytest.mark.slow))
IMAGES = 32
WORDS = ("run.dir=x", "data.shards=y", "objective.compute_type=float32", "execution.attention=sdpa")
# torch counts attention on GPUs only. Its backward kernels compute the scores once more instead of keeping them.
_OPERATIONS = torch.ops.aten
_CPU_ATTENTION = {
    _OPERATIONS._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    _OPERATIONS._scaled_dot_product_flash_attention_for_cpu_backward: lambda gradient, q, k, v, *_, **__: (
        sdpa_backward_flop_count(gradient, q, k, v)
    ),
}


def counted_flops(config: PretrainConfig, images: int) -> float:
    """Of one image in a step over `images`, forward and backward, on tensors without content."""
    augment, patches = config.augment, (config.augment.global_px // config.model.vit().patch_px) ** 2
    masks = torch.zeros(2 * images * patches, dtype=torch.bool)
    masks[: rows_of(config, images).patch_rows] = True  # as many masked patches as there are on average
    crops = [
        torch.zeros(count * images, 3, side, side, dtype=torch.uint8)
        for count, side in ((2, augment.global_px), (augment.local_crops, augment.local_px))
    ]
    batch = make_batch(crops[0], crops[1], masks.view(2 * images, patches))
    drop_path = DropPath(config.model.vit(), images, augment.local_crops, 0).draw(1.0, 0, range(1))
    with torch.device("meta"):
        objective = DinoObjective(config.model.vit(), config.trained_objective, config.execution)
    with FakeTensorMode() as fake:
        for name in ("global_crops", "local_crops", "masks", "masked_positions", "masked_weights"):
            setattr(batch, name, fake.from_tensor(getattr(batch, name)))
        objective._apply(lambda tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu"))
        subsets = None if drop_path is None else [fake.from_tensor(chosen) for chosen in drop_path]
        with FlopCounterMode(display=False, custom_mapping=_CPU_ATTENTION) as counter:
            objective(batch.to("cpu"), 0.05, drop_path=subsets)["total"].backward()
    return counter.get_total_flops() / images


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_step_of_a_shipped_recipe_is_as_much_work_as_planned(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "execution.checkpoint_blocks=false"]
    config = load_config(PretrainConfig, CONFIGS / "pretrain" / f"{recipe}.yaml", words)
    counted, planned = counted_flops(config, IMAGES), flops_per_image(config)
    with capsys.disabled():
        overhead = counted / planned - 1
        print(
            f"\n{recipe}: {counted / 1e12:.4f} TFLOP per image counted, {overhead:+.2%} against the formula",
            file=sys.stderr,
        )
    assert counted == pytest.approx(planned, rel=0.02)


def test_recomputed_blocks_are_counted_as_overhead(capsys: pytest.CaptureFixture[str]) -> None:
    """The formula is the least that the mathematics asks for; blocks that are computed twice go beyond it."""
    words = [*WORDS, "execution.checkpoint_blocks=true"]
    config = load_config(PretrainConfig, CONFIGS / "pretrain" / f"{RECIPES[0]}.yaml", words)
    overhead = counted_flops(config, IMAGES) / flops_per_image(config) - 1
    with capsys.disabled():
        print(f"\nexecution.checkpoint_blocks=true: {overhead:+.1%} over the formula", file=sys.stderr)
    assert 0.1 < overhead < 0.3
