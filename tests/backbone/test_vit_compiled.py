"""Compiled blocks: how many graphs there are, and that none breaks."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

from panendofm.backbone import Execution, VisionTransformer, vit_config


@pytest.fixture(autouse=True)
def tracing_only(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs of forward and backward are made and run; writing machine code for them takes a minute and is left out."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def compiled(drop_path: float) -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(vit_config("vit_test", drop_path=drop_path, layerscale_init=0.5), Execution(compile=True))


def pass_over(model: VisionTransformer, images: int) -> torch.Tensor:
    """Both crop sizes in one pass; the student's gradient, too."""
    generator, px = torch.Generator().manual_seed(0), model.config.patch_px
    crops = [torch.randn(2 * images, 3, side * px, side * px, generator=generator) for side in (4, 2)]
    masks = torch.rand(2 * images, 16, generator=generator) < 0.3
    tokens = model.forward_packed(crops, [masks, None])
    loss = tokens[0].patches.square().mean() + tokens[1].cls.square().mean()
    if loss.requires_grad:
        loss.backward()
    return loss.detach()


def test_student_and_teacher_are_two_graphs_without_a_break() -> None:
    student, teacher = compiled(drop_path=0.3).train(), compiled(drop_path=0.0).eval()
    for _ in range(2):
        pass_over(student, 4)
        with torch.no_grad():
            pass_over(teacher, 4)
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]


def test_a_drop_path_that_rises_needs_one_more_graph() -> None:
    """In the warm start every few steps another number of samples is left."""
    student = compiled(drop_path=0.3).train()
    for images in (4, 5, 6, 7, 9, 11):
        pass_over(student, images)
    assert counters["stats"]["unique_graphs"] == 2
    assert not counters["graph_break"]


def test_fsdp_breaks_no_graph_and_changes_no_number() -> None:
    losses, gradients = [], []
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        for sharded in (False, True):
            student = compiled(drop_path=0.0).train()
            if sharded:
                for block in student.blocks:
                    fully_shard(block)
                fully_shard(student)
                register_fsdp_forward_method(student, "forward_packed")
            losses.append(pass_over(student, 4))
            weight = student.blocks[0].mlp.fc1.weight
            gradients.append(weight.grad.full_tensor() if sharded else weight.grad)
    finally:
        dist.destroy_process_group()
    assert torch.equal(losses[0], losses[1])
    assert torch.equal(gradients[0], gradients[1])
    assert counters["stats"]["unique_graphs"] <= 2  # alone and sharded may share theirs
    assert not counters["graph_break"]
