"""The numbers of a device: the reference's steps, every attention backend, features, neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pytest
import torch
from golden_steps import (
    assert_close,
    assert_losses,
    load_golden,
    loaded,
    stepper_of,
    whole,
    without_key_bias,
)

from launch.doctor.attention import check_attention
from launch.doctor.neighbors import check_neighbors
from panendofm.backbone import BACKENDS, Backend, Preprocessing, VisionTransformer, vit_config, why_unavailable
from pretrain import joined_world
from pretrain.data.augment import AugmentConfig, draw_params
from pretrain.data.augment.photometric import plan_of
from pretrain.data.batch import make_batch
from pretrain.selftest import golden_step_errors

STEPS = {"step_sinkhorn_separate_heads": 1, "step_centering_shared_head_2steps": 2}


@pytest.fixture(autouse=True)
def exact_convolutions() -> Iterator[None]:
    """On a GPU they round to TF32 unless told otherwise: right for training, not for comparisons at 1e-4."""
    with torch.backends.cudnn.flags(allow_tf32=False):
        yield


@pytest.mark.parametrize("name", STEPS)
def test_golden_steps(device: torch.device, golden: Path, name: str) -> None:
    """The step of a run, with its sharded networks and its fused AdamW, to the weights at the end."""
    step = load_golden(golden, name)
    objective = step.objective()
    with joined_world(cast(Literal["cpu", "cuda"], device.type), 60, alone=True) as world:
        stepper = stepper_of(objective, world)
        for i in range(STEPS[name]):
            result = stepper.run([loaded(step.batch(f"step{i}/"), i)], step.values)
            assert_losses(result.read().losses, step.losses(f"step{i}/"), 1e-4)
        for network in ("student", "teacher"):
            state = {n: whole(tensor).cpu() for n, tensor in getattr(objective, network).state_dict().items()}
            assert_close(without_key_bias(state), without_key_bias(step.tensors(f"final/{network}/")), 1e-3)


@pytest.mark.parametrize(("compute_type", "tolerance"), [("float32", 1e-4), ("bfloat16", 5e-2)])
def test_golden_losses_in_the_type_of_training(
    device: torch.device, golden: Path, compute_type: Literal["float32", "bfloat16"], tolerance: float
) -> None:
    errors = golden_step_errors(golden / "step_sinkhorn_separate_heads.npz", device, compute_type)
    assert errors["losses"] < tolerance and errors["gradients"] < 3 * tolerance


@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_equals_separate_for_every_backend(device: torch.device, backend: Backend) -> None:
    """With drop path, forward and backward, in both types; against the formula and the golden files, too."""
    reason = why_unavailable(backend, device)
    if reason is not None:
        pytest.skip(f"attention={backend}: {reason}")
    rows = [row for row in check_attention(device, "sdpa") if row.check.startswith(f"attention {backend}")]
    assert len(rows) == (1 if backend == "varlen" else 2)
    assert [row.status for row in rows] == ["pass"] * len(rows), rows


def test_neighbors(device: torch.device) -> None:
    """FAISS searches on its GPUs by itself where it has any."""
    (row,) = check_neighbors()
    assert row.status == "pass", row
    if device.type == "cpu":
        assert "CPU" in row.found or row.figures["gpus"] > 0


@torch.no_grad()
def test_features_are_those_of_the_cpu(device: torch.device) -> None:
    torch.manual_seed(0)
    model = VisionTransformer(vit_config("vit_tiny_patch14_reg4", image_px=56)).eval()
    images = torch.randn(8, 3, 56, 56)
    expected = model(images)
    found = model.to(device)(images.to(device))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)


def test_augmentation_of_the_device_is_that_of_the_cpu(device: torch.device) -> None:
    """augment.where=gpu: every operation on one batch, here and there, from the same plans."""
    config = AugmentConfig(where="gpu", local_crops=2)
    random = np.random.default_rng(0)
    images = 24
    drawn = [draw_params(config, 320, 256, 0, 0, key, None) for key in range(images)]
    sides = (config.global_px, config.local_px)
    crops = [torch.from_numpy(random.integers(0, 256, (2 * images, 3, side, side), dtype=np.uint8)) for side in sides]
    batch = make_batch(crops[0], crops[1], torch.zeros(2 * images, 256, dtype=torch.bool))
    batch.photometric = tuple(plan_of(drawn, part, config) for part in (slice(0, 2), slice(2, 4)))
    assert all(min(sum(plan.counts[:16]), *plan.counts[16:18]) > 0 for plan in batch.photometric)
    here, there = batch.to("cpu"), batch.to(device)
    level = 1 / (255 * min(Preprocessing.std))  # one of 256 levels, in units of normalized pixels
    for expected, found in ((here.global_crops, there.global_crops), (here.local_crops, there.local_crops)):
        assert found.device.type == device.type
        difference = (found.cpu() - expected).abs()
        # Rounding differs in the last bit: a level here and there, and more only where a hue jumps.
        assert float((difference > 1.01 * level).float().mean()) < 1e-3
