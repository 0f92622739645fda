"""Training on a device: resumed, on several ranks, within the planned memory; and the doctor's own verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

import pytest
import torch

from launch.doctor.ranks import train_alone
from launch.doctor.rows import Row
from launch.doctor.training import check_training
from panendofm.runtime.config import CONFIGS, load_config
from panendofm.runtime.ports import free_port
from pretrain import PretrainConfig, joined_world
from pretrain.selftest import Training, sharding_config, train, write_images

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("data") / "images", 64)


def until(config: PretrainConfig, steps: int) -> PretrainConfig:
    return replace(config, run=replace(config.run, stop_at=f"{steps} steps"))


def test_a_resumed_run_goes_on_as_if_nothing_had_been(
    training_device: torch.device, shards: Path, tmp_path: Path
) -> None:
    """Every tensor comes back bit by bit; the losses that follow are those of the run that was not interrupted."""
    kind = cast(Literal["cpu", "cuda"], training_device.type)
    whole, parts = (sharding_config(tmp_path / name, shards, 2, kind, "fsdp", "float32") for name in ("whole", "parts"))
    with joined_world(kind, 60, alone=True) as world:
        undisturbed = train(whole, world)
        interrupted = Training(until(parts, 2), world)
        interrupted.run()
        assert interrupted.changed_by_reloading() == []
        resumed = Training(parts, world).run()
    assert len(resumed.losses) == len(undisturbed.losses) == 4
    for ours, theirs in zip(resumed.losses, undisturbed.losses, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-5 if kind == "cuda" else 0)


@pytest.mark.timeout(600)
def test_sharded_ranks_give_the_numbers_of_one(training_device: torch.device, shards: Path, tmp_path: Path) -> None:
    """FSDP2, HSDP and replicas over NCCL on all GPUs; over gloo on two processes elsewhere."""
    ranks = torch.cuda.device_count() if training_device.type == "cuda" else 2
    if ranks < 2:
        pytest.skip("one GPU: NCCL between ranks needs two")
    kind = cast(Literal["cpu", "cuda"], training_device.type)
    with joined_world(kind, 60, alone=True) as world:
        alone = train_alone(world, tmp_path, shards, ranks)
    (tmp_path / "alone.json").write_text(json.dumps(vars(alone)))
    rows = run_ranks(ranks, kind, tmp_path, shards)
    assert len(rows) >= 5
    assert {row.status for row in rows} == {"pass"}, rows
    assert any("nccl" in row.found for row in rows) == (kind == "cuda")


def run_ranks(ranks: int, kind: str, folder: Path, shards: Path) -> list[Row]:
    """What the first of so many processes found."""
    port = free_port()
    started = []
    for rank in range(ranks):
        place = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
        environment = os.environ | {name: str(value) for name, value in place.items()} | {"MASTER_ADDR": "127.0.0.1"}
        command = [sys.executable, str(HERE / "sharded_rank.py"), kind, str(folder), str(shards)]
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    said = [process.communicate(timeout=500)[0] for process in started]
    assert [process.returncode for process in started] == [0] * ranks
    return [Row(**json.loads(line)) for line in said[0].splitlines() if line.startswith("{")]


def test_ten_steps_take_the_memory_that_was_planned(
    training_device: torch.device, shards: Path, tmp_path: Path
) -> None:
    kind = cast(Literal["cpu", "cuda"], training_device.type)
    words = [f"run.dir={tmp_path / 'run'}", f"data.shards={shards}", f"run.device={kind}"]
    config = load_config(PretrainConfig, CONFIGS / "pretrain" / "doctor.yaml", words)
    with joined_world(kind, 60, alone=True) as world:
        rows = {row.check: row for row in check_training(world, config, tmp_path / "ten", float("inf"))}
    assert rows["memory"].status == rows["checkpoint"].status == "pass", rows
    assert rows["steps"].status != "fail"
