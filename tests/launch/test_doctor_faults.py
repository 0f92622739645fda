"""Every check of the doctor fails when its fault is planted, in the part that is at fault."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import simplejpeg
import torch

from launch.doctor import attention, file_system, neighbours, ranks, training, versions
from launch.doctor.rows import Row, read_notes
from pretrain import PretrainConfig, requirements_of
from pretrain.data import batch
from pretrain.run import checkpoints, checksummed_writer
from pretrain.selftest import joined_world, sharding_config, write_pictures
from runtime.errors import UserError
from runtime.locks import directory_lock

sys.path.insert(0, str(Path(__file__).resolve().parent))
from doctor_faults import FAULTS, run_on_two_ranks

CPU = torch.device("cpu")


def row_of(rows: Iterator[Row], check: str) -> Row:
    found = [row for row in rows if row.check == check]
    assert len(found) == 1, f"no row '{check}'"
    row = found[0]
    assert row.remedy or row.status in ("pass", "skip"), "what is not right needs a remedy"
    return row


# ---- attention and kNN


def test_wrong_scale_in_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional,
        "scaled_dot_product_attention",
        lambda q, k, v: sound(q, k, v, scale=1.02 / q.shape[-1] ** 0.5),
    )
    assert row_of(attention.check_attention(CPU, "sdpa"), "attention sdpa float32").status == "fail"


def test_wrong_backward_of_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forward pass is right: only a comparison of gradients sees it."""

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(q, k, v)
            return sound(q, k, v)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            with torch.enable_grad():
                q, k, v = torch.autograd.grad(sound(*inputs), inputs, gradients[0])
            return q * 1.05, k, v

    sound = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", Attention.apply)
    row = row_of(attention.check_attention(CPU, "sdpa"), "attention sdpa float32")
    assert row.status == "fail" and "golden forward" not in row.found and "formula" in row.found


@pytest.mark.parametrize("leaks", [False, True])
def test_a_backend_beside_sdpa(monkeypatch: pytest.MonkeyPatch, leaks: bool) -> None:
    """One that exists on CUDA only, played on the CPU: right, and with sequences that see their neighbours."""

    def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts: torch.Tensor, *_: Any) -> torch.Tensor:
        lengths = starts.diff()
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        mask = (sequence[:, None] - sequence).abs() <= int(leaks)
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen)
    for place in ("backbone.attention.why_unavailable", "launch.doctor.attention.why_unavailable"):
        monkeypatch.setattr(place, lambda backend, _: None if backend != "xformers" else "not installed")
    row = row_of(attention.check_attention(CPU, "sdpa"), "attention varlen bfloat16")
    assert row.status == ("fail" if leaks else "pass"), row.found


def test_a_backend_that_the_config_wants_and_the_machine_lacks() -> None:
    assert row_of(attention.check_attention(CPU, "xformers"), "attention xformers").status == "fail"


def test_a_search_in_too_few_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = torch.mm
    monkeypatch.setattr(
        torch, "mm", lambda a, b, out=None: out.copy_(sound(a.bfloat16().float(), b.bfloat16().float()))
    )
    row = row_of(neighbours.check_neighbours(), "kNN")
    assert row.status == "fail" and row.figures["wrong"]["torch"] > 0 and row.figures["wrong"]["faiss"] == 0


def test_a_search_that_forgets_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = faiss.knn
    monkeypatch.setattr(
        faiss, "knn", lambda queries, gallery, k, metric: sound(queries, gallery[:-1], k, metric=metric)
    )
    row = row_of(neighbours.check_neighbours(), "kNN")
    assert row.status == "fail" and "search.backend=faiss" in row.found


# ---- versions


def test_two_faiss_side_by_side(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "faiss_gpu_cu12-1.15.1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: faiss-gpu-cu12\nVersion: 1.15.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    row = row_of(versions.check_versions(CPU, wants_gpu=False), "one FAISS")
    assert row.status == "fail" and "faiss-cpu and faiss-gpu-cu12" in row.found


def test_a_package_of_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    installed = tmp_path / "omegaconf-2.0.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: omegaconf\nVersion: 2.0.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    row = row_of(versions.check_versions(CPU, wants_gpu=False), "packages")
    assert row.status == "fail" and "omegaconf is 2.0.0, not >=2.4" in row.found


def test_a_gpu_that_torch_does_not_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 550.54.15\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    row = row_of(versions.check_versions(CPU, wants_gpu=False), "device")
    assert row.status == "fail" and "driver 550.54.15" in row.found


def test_a_job_without_the_gpus_that_it_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert row_of(versions.check_versions(CPU, wants_gpu=True), "device").status == "fail"


# ---- file system


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pictures(tmp_path_factory.mktemp("doctor") / "pictures", 16, drawn=4)


@pytest.fixture
def config(tmp_path: Path, shards: Path) -> PretrainConfig:
    return sharding_config(tmp_path / "run", shards, 1, "cpu", "fsdp", "float32")


def files(folder: Path, config: PretrainConfig) -> Iterator[Row]:
    return file_system.check_file_system(folder / "files", config, requirements_of(config, 1, 1))


def test_a_sound_file_system(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "_SLOWEST_MB_PER_SECOND", 0.1)  # other tests may use the disk, too
    rows = list(files(tmp_path, config))
    assert [row.check for row in rows] == ["rename", "locks", "fsync", "disk speed", "disk space"]
    assert [row.status for row in rows] == ["pass"] * 5, rows


def test_a_missing_fsync(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    from launch.doctor.page_cache import unflushed_pages

    (tmp_path / "dirty").write_bytes(os.urandom(1 << 20))
    if not unflushed_pages(tmp_path / "dirty"):
        pytest.skip("this kernel or file system does not tell what it has not written yet")
    monkeypatch.setattr(os, "fsync", lambda _: None)
    assert row_of(files(tmp_path, config), "fsync").status == "fail"


def test_a_slow_disk(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (time.sleep(0.3), sound(descriptor))[1])
    monkeypatch.setattr(file_system, "_BLOCKS", 4)
    row = row_of(files(tmp_path, config), "disk speed")
    assert row.status == "warn" and row.figures["mb_per_second"] < 20


def test_a_rename_that_copies(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(source: Path, target: Path) -> None:
        target.write_bytes(source.read_bytes())
        source.unlink()

    monkeypatch.setattr(Path, "replace", replace)
    assert row_of(files(tmp_path, config), "rename").status == "fail"


def test_locks_that_do_nothing(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    assert row_of(files(tmp_path, config), "locks").status == "fail"


def no_flock(*_: Any) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


def test_no_flock_is_a_sentence_and_a_fallback(
    tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fcntl, "flock", no_flock)
    row = row_of(files(tmp_path, config), "locks")
    assert row.status == "warn" and "no flock" in row.found and "-o flock" in row.remedy
    held = tmp_path / "run"
    with directory_lock(held):
        with pytest.raises(UserError, match=f"is in use by process {os.getpid()}"), directory_lock(held):
            pass
        assert (held / ".lock.held").is_file()
    assert not (held / ".lock.held").exists()
    # Left behind by a process of this host that is gone: taken over. By one of another host: nobody can tell.
    (held / ".lock.held").write_text(f'{{"host": "{socket.gethostname()}", "pid": 4194999}}')
    with directory_lock(held):
        pass
    (held / ".lock.held").write_text('{"host": "elsewhere", "pid": 1}')
    with pytest.raises(UserError, match=r"process 1 on elsewhere.*remove .*\.lock\.held"), directory_lock(held):
        pass


def test_a_full_disk(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    assert row_of(files(tmp_path, config), "disk space").status == "fail"


# ---- ten steps


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
    sound = batch.normalise
    monkeypatch.setattr(batch, "normalise", lambda crops: sound(crops) * float("nan"))
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


# ---- ranks


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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        (scratch / "port").write_text(str(probe.getsockname()[1]))
    run_on_two_ranks(scratch)
    return scratch


@pytest.mark.parametrize("fault", FAULTS)
def test_on_two_ranks(two_ranks: Path, fault: str) -> None:
    _, _, check, expected = FAULTS[fault]
    rows = [row for rank in range(2) for row in read_notes(two_ranks / fault / f"rank_{rank}.jsonl").rows]
    assert {row.status for row in rows if row.check == check} == {expected}, rows
