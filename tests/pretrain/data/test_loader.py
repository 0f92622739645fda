"""Batches: the same whatever the workers and ranks; a step in parts equals the step at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from engine_runs import words_of
from torch.distributed.tensor import DTensor
from torch.utils.data._utils.pin_memory import pin_memory as from_dataloader

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.build import build_objective
from pretrain.config import PretrainConfig
from pretrain.data.config import BatchConfig
from pretrain.data.loader import LoadedBatch, Loader, RankBatches
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.data.order.order import DataOrder
from pretrain.data.storage.shards import UnreadableSampleError, open_shards
from pretrain.objective.drop_path import DropPath
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.optimizer.step import Stepper
from pretrain.parallel.world import World, joined_world
from pretrain.run.checkpoints import training_state
from pretrain.schedules import StepValues
from pretrain.sharding import make_mesh

VALUES = StepValues(lr=0.01, last_layer_lr=0.01, weight_decay=0.04, momentum=0.9, teacher_temperature=0.05)


def config_of(shards: Path, **changes: object) -> PretrainConfig:
    return load_config(PretrainConfig, None, words_of(Path("unused"), shards, **changes))


def parts_of(
    config: PretrainConfig, steps: range, rank: int = 0, world_size: int = 1
) -> tuple[RankBatches, BatchSampler]:
    shards = open_shards(config.data.shards)
    batch = config.batch
    order = DataOrder(shards.runs, config.run.seed, batch.images, batch.microgroup_images)
    answers = RankBatches(
        shards, order, config.augment, config.masks, config.model.vit().patch_px, batch.microgroup_images, 0
    )
    return answers, BatchSampler(order, batch, rank, world_size, steps)


def batches_of(
    config: PretrainConfig, steps: range, rank: int = 0, world_size: int = 1, workers: int = 0
) -> list[LoadedBatch]:
    answers, requests = parts_of(config, steps, rank, world_size)
    loader = Loader(answers, requests, replace(config.data, workers=workers))
    loaded = [loader.next() for _ in range(len(requests))]
    assert loader.wait_seconds > 0
    loader.close()
    return loaded


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_workers_change_nothing(shards: Path, where: str) -> None:
    config = config_of(shards, augment__where=where)
    for alone, helped in zip(
        batches_of(config, range(7, 10)), batches_of(config, range(7, 10), workers=2), strict=True
    ):
        assert (alone.step, alone.keys) == (helped.step, helped.keys)
        assert torch.equal(alone.batch.global_crops, helped.batch.global_crops)
        assert torch.equal(alone.batch.masks, helped.batch.masks)
        finished = [loaded.batch.to("cpu") for loaded in (alone, helped)]
        assert torch.equal(finished[0].local_crops, finished[1].local_crops)


def test_batches_for_a_gpu_are_pinned(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUDA does to memory is played here; which tensors it is asked for, and that DataLoader asks, is real."""
    pinned: list[torch.Tensor] = []

    def pin(tensor: torch.Tensor, device: object = None) -> torch.Tensor:
        pinned.append(tensor)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    config = config_of(shards)
    (loaded,) = batches_of(config, range(1))
    batch = loaded.pin_memory().batch
    tensors = [value for value in vars(batch).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == len(pinned) == 6  # all that travel
    for name, value in vars(loaded.batch).items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(value, getattr(batch, name))
    assert (batch.microgroups, loaded.pin_memory().keys) == (loaded.batch.microgroups, loaded.keys)
    assert from_dataloader(loaded).batch.microgroups == loaded.batch.microgroups  # DataLoader's thread finds the method
    assert len(pinned) == 3 * 6
    (loaded,) = batches_of(config_of(shards, augment__where="gpu"), range(1))
    assert loaded.pin_memory().batch.photometric is not None
    assert len(pinned) == 4 * 6 + 4  # and the plans of the global and of the local crops


def test_a_missing_shard_is_one_sentence_also_from_a_worker(shards: Path, tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    shutil.copytree(shards, folder)
    config = config_of(folder)
    for workers in (0, 1):
        answers, requests = parts_of(config, range(2))
        (folder / "shard-000001.tar").unlink()  # after the shards were opened
        loader = Loader(answers, requests, replace(config.data, workers=workers))
        with pytest.raises(UserError, match=r"^cannot read the shard \S*shard-000001\.tar: it does not exist; [^\n]*$"):
            loader.next()
        loader.close()
        shutil.copy(shards / "shard-000001.tar", folder)


@pytest.mark.parametrize("where", ["cpu", "gpu"])
def test_ranks_together_see_the_batch_of_one_rank(shards: Path, where: str) -> None:
    config = config_of(shards, batch__accumulation_steps=2, augment__where=where)
    whole = batches_of(config, range(3))  # two parts a step
    shares = [batches_of(config, range(3), rank, 2) for rank in range(2)]
    for number, expected in enumerate(whole):
        parts = [share[number] for share in shares]
        assert expected.keys == parts[0].keys + parts[1].keys
        crops = expected.batch.to("cpu").global_crops.unflatten(0, (2, 2, 4))  # [crop, rank, image, …]
        masks = expected.batch.masks.unflatten(0, (2, 2, 4))
        for rank, part in enumerate(parts):
            assert torch.equal(crops[:, rank].flatten(0, 1), part.batch.to("cpu").global_crops)
            assert torch.equal(masks[:, rank].flatten(0, 1), part.batch.masks)


def drop_path_of(config: PretrainConfig) -> DropPath:
    return DropPath(config.model.vit(), config.batch.microgroup_images, config.augment.local_crops, config.run.seed)


def test_drop_path_of_a_microgroup_does_not_depend_on_its_neighbors(shards: Path) -> None:
    """A batch of two microgroups leaves out the crops that each of them leaves out when it is alone."""
    config = config_of(shards, batch__images=8)
    drop_path = drop_path_of(config)
    (both,) = batches_of(config, range(1))
    alone = [batches_of(config, range(1), rank, 2)[0] for rank in range(2)]
    drawn = drop_path.draw(1.0, both.step, both.microgroups)
    assert drawn is not None
    for member, crops in enumerate((2, 2)):  # global crops, local crops
        chosen = drawn[member]  # [depth, 2, chosen]
        for rank in range(2):
            of_microgroup = (chosen // 4 % 2 == rank).sum(dim=-1)
            assert (of_microgroup == int(crops * 4 * 0.7)).all()
            own = drop_path.draw(1.0, alone[rank].step, alone[rank].microgroups)
            assert own is not None
            expected = own[member] // 4 * 8 + rank * 4 + own[member] % 4
            ours = chosen[..., rank * expected.shape[-1] : (rank + 1) * expected.shape[-1]]
            assert torch.equal(ours, expected)


def test_a_truncated_shard_is_told_from_a_whole_one(shards: Path, tmp_path: Path) -> None:
    whole = open_shards(shards)
    whole.shards = [tmp_path / path.name for path in whole.shards]
    last = int((whole.shard_of == 0).sum()) - 1
    content = (shards / "shard-000000.tar").read_bytes()
    (tmp_path / "shard-000000.tar").write_bytes(content[: int(whole.offsets[last]) + 10])
    with pytest.raises(UnreadableSampleError, match=r"is cut off: 10 of \d+ bytes"):
        whole.read(last)


@pytest.fixture
def world() -> Iterator[World]:
    with joined_world("cpu", 30) as world:
        yield world


def after_a_step(config: PretrainConfig, world: World, parts: list[LoadedBatch]) -> dict[str, torch.Tensor]:
    mesh = make_mesh(config.sharding, 1, 1, "cpu")
    objective = build_objective(
        config.model.vit(), config.objective, config.execution, config.sharding, mesh, world.device, seed=0
    )
    optimizer = build_optimizer(objective.student, config.optimizer)
    Stepper(objective, optimizer, 3.0, drop_path_of(config), world).run(parts, VALUES)
    state = training_state(objective, optimizer)
    return {name: (t.full_tensor() if isinstance(t, DTensor) else t).clone() for name, t in state.items()}


def test_a_step_in_parts_equals_the_step_at_once(shards: Path, world: World) -> None:
    """Teacher and center move once. (The patch center is the mean of the parts' means, as it is of ranks' means.)"""
    changes = {"objective__targets": "centering", "objective__ibot_weight": 0.0, "optimizer__epsilon": 1e-3}
    config = config_of(shards, **changes)
    in_parts = replace(config, batch=BatchConfig(images=16, microgroup_images=4, accumulation_steps=2))
    at_once = after_a_step(config, world, batches_of(config, range(1)))
    split = after_a_step(config, world, batches_of(in_parts, range(1)))
    assert float(at_once["dino_targets.center"].abs().sum()) > 0
    for name, expected in at_once.items():
        if name != "ibot_targets.center":
            torch.testing.assert_close(split[name], expected, rtol=1e-4, atol=1e-7, msg=name)
