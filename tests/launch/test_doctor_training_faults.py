"""Faults that are planted in a training and between ranks, each found by its check."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch

from launch.doctor import ranks, training
from launch.doctor.rows import Row, read_notes
from panendofm.runtime.errors import UserError
from panendofm.runtime.ports import free_port
from pretrain import PretrainConfig, joined_world
from pretrain.data import batch
from pretrain.run import checkpoints, checksummed_writer
from pretrain.selftest import sharding_config, write_images

sys.path.insert(0, str(Path(__file__).resolve().parent))
from doctor_faults import FAULTS, row_of, run_on_two_ranks


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("doctor") / "images", 16, drawn=4)


@pytest.fixture
def config(tmp_path: Path, shards: Path) -> PretrainConfig:
    return sharding_config(tmp_path / "run", shards, 1, "cpu", "fsdp", "float32")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_JUDGED_SECONDS", 0.0)  # so small a step would not be judged
    monkeypatch.setattr(training, "_LOADER_SECONDS", 0.2)
    monkeypatch.setattr(training, "_MATMUL_SECONDS", 0.05)
    monkeypatch.setattr(training, "STEPS", 4)


def steps(config: PretrainConfig, folder: Path) -> list[Row]:
    with joined_world("cpu", 60, alone=True) as world:
        return list(training.check_training(world, config, folder, float("inf")))


@pytest.mark.usefixtures("short")
def test_sound_steps(tmp_path: Path, config: PretrainConfig) -> None:
    rows = steps(config, tmp_path / "ten")
    assert [row.check for row in rows] == ["steps", "memory", "traffic", "data rate", "checkpoint"]
    # So small a network is all overhead: only its speed may be found wanting.
    assert {row.check: row.status for row in rows if row.check not in ("steps", "data rate")} == {
        "memory": "pass", "traffic": "pass", "checkpoint": "pass",
    }  # fmt: skip


@pytest.mark.usefixtures("short")
def test_a_slow_decoder(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = simplejpeg.decode_jpeg

    def slow(*words: Any, **named: Any) -> Any:
        time.sleep(0.05)
        return sound(*words, **named)

    monkeypatch.setattr(simplejpeg, "decode_jpeg", slow)
    row = row_of(iter(steps(config, tmp_path / "ten")), "data rate")
    assert row.status == "warn" and row.figures["loaded"] < row.figures["eaten"]


@pytest.mark.usefixtures("short")
def test_a_step_that_takes_more_memory_than_planned(
    tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pretrain.optimizer.step import Stepper

    sound, kept = Stepper.run, []

    def greedy(stepper: Stepper, *words: Any) -> Any:
        kept.append(np.ones(20_000_000))  # 160 MB a step
        return sound(stepper, *words)

    monkeypatch.setattr(Stepper, "run", greedy)
    assert row_of(iter(steps(config, tmp_path / "ten")), "memory").status == "warn"


@pytest.mark.usefixtures("short")
def test_a_step_that_is_not_finite(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = batch.normalize
    monkeypatch.setattr(batch, "normalize", lambda crops: sound(crops) * float("nan"))
    row = row_of(iter(steps(config, tmp_path / "ten")), "steps")
    assert row.status == "fail" and "not finite" in row.found


@pytest.mark.usefixtures("short")
def test_a_gpu_that_is_too_small(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from pretrain.optimizer.step import Stepper

    def out_of_memory(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(Stepper, "run", out_of_memory)
    with pytest.raises(UserError, match=r"memory was used up.*checkpoint_blocks"):
        steps(config, tmp_path / "ten")


@pytest.mark.usefixtures("short")
def test_a_slow_step(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from pretrain.optimizer.step import Stepper

    sound = Stepper.run

    def slow(stepper: Stepper, *words: Any) -> Any:
        time.sleep(0.3)
        return sound(stepper, *words)

    monkeypatch.setattr(Stepper, "run", slow)
    assert row_of(iter(steps(config, tmp_path / "ten")), "steps").status == "warn"


@pytest.mark.usefixtures("short")
def test_a_checkpoint_that_is_not_flushed(
    tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launch.doctor.page_cache import unflushed_pages

    (tmp_path / "dirty").write_bytes(os.urandom(1 << 20))
    if not unflushed_pages(tmp_path / "dirty"):
        pytest.skip("this kernel or file system does not tell what it has not written yet")
    monkeypatch.setattr(checksummed_writer.os, "fsync", lambda _: None)
    row = row_of(iter(steps(config, tmp_path / "ten")), "checkpoint")
    assert row.status == "fail" and "in memory only" in row.found


@pytest.mark.usefixtures("short")
def test_a_checkpoint_that_comes_back_changed(
    tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = checkpoints.load

    def careless(state: dict[str, torch.Tensor], **named: Any) -> None:
        sound(state, **named)
        state["teacher.dino_head.last_layer.weight_v"][0, 0] += 1e-6

    monkeypatch.setattr(checkpoints, "load", careless)
    row = row_of(iter(steps(config, tmp_path / "ten")), "checkpoint")
    assert row.status == "fail" and "teacher.dino_head" in row.found


def test_a_config_that_does_not_fit(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_available_bytes", lambda _: 1000.0)
    row = row_of(iter(steps(config, tmp_path / "ten")), "memory")
    assert row.status == "fail" and "checkpoint_blocks" in row.remedy


def test_one_rank_alone(tmp_path: Path, shards: Path) -> None:
    """As on a machine with one GPU: nothing to send, nothing to shard, nothing wrong."""
    with joined_world("cpu", 60, alone=True) as world:
        alone = ranks.train_alone(world, tmp_path, shards, 1)
        modes = ranks.sharding_modes(world)
        rows = [
            *ranks.check_shared_folder(world, tmp_path),
            *ranks.check_collectives(world),
            *ranks.check_sharding(world, tmp_path, shards, alone, modes),
        ]
    found = {row.check: row.status for row in rows}
    assert found == {"shared folder": "pass", "locks over nodes": "pass", "collectives": "pass", "sharding": "skip"}


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("two_ranks")
    (scratch / "port").write_text(str(free_port()))
    run_on_two_ranks(scratch)
    return scratch


@pytest.mark.parametrize("fault", FAULTS)
def test_on_two_ranks(two_ranks: Path, fault: str) -> None:
    _, _, check, expected = FAULTS[fault]
    rows = [row for rank in range(2) for row in read_notes(two_ranks / fault / f"rank_{rank}.jsonl").rows]
    assert {row.status for row in rows if row.check == check} == {expected}, rows
