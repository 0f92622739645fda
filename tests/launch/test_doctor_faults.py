"""Faults that are planted in a machine's parts, each found by its check: backends, versions, file system."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
import torch

from launch.doctor import attention, file_system, versions
from launch.doctor import neighbors as neighbors
from launch.doctor.rows import Row
from panendofm.runtime.errors import UserError
from panendofm.runtime.locks import directory_lock
from pretrain import PretrainConfig, requirements_of
from pretrain.selftest import sharding_config

sys.path.insert(0, str(Path(__file__).resolve().parent))
from doctor_faults import row_of

CPU = torch.device("cpu")


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
    """One that exists on CUDA only, played on the CPU: right, and with sequences that see their neighbors."""

    def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, starts: torch.Tensor, *_: Any) -> torch.Tensor:
        lengths = starts.diff()
        sequence = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        mask = (sequence[:, None] - sequence).abs() <= int(leaks)
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)[0].transpose(0, 1)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen)
    for place in ("panendofm.backbone.attention.why_unavailable", "launch.doctor.attention.why_unavailable"):
        monkeypatch.setattr(place, lambda backend, _: None if backend != "xformers" else "not installed")
    row = row_of(attention.check_attention(CPU, "sdpa"), "attention varlen bfloat16")
    assert row.status == ("fail" if leaks else "pass"), row.found


def test_a_backend_that_the_config_wants_and_the_machine_lacks() -> None:
    assert row_of(attention.check_attention(CPU, "xformers"), "attention xformers").status == "fail"


def test_a_search_in_too_few_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = faiss.knn

    def coarse(rows: np.ndarray) -> np.ndarray:
        return torch.from_numpy(rows).bfloat16().float().numpy()

    monkeypatch.setattr(faiss, "knn", lambda a, b, k, metric: sound(coarse(a), coarse(b), k, metric=metric))
    row = row_of(neighbors.check_neighbors(), "kNN")
    assert row.status == "fail" and row.figures["wrong"] > 0


def test_a_search_that_forgets_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = faiss.knn
    monkeypatch.setattr(
        faiss, "knn", lambda queries, gallery, k, metric: sound(queries, gallery[:-1], k, metric=metric)
    )
    row = row_of(neighbors.check_neighbors(), "kNN")
    assert row.status == "fail" and "neighbors wrong" in row.found


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


@pytest.fixture
def config(tmp_path: Path) -> PretrainConfig:
    return sharding_config(tmp_path / "run", tmp_path / "shards", 1, "cpu", "fsdp", "float32")


def files(folder: Path, config: PretrainConfig) -> Iterator[Row]:
    return file_system.check_file_system(folder / "files", config, requirements_of(config, 1, 1))


def test_a_sound_file_system(tmp_path: Path, config: PretrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_system, "_SLOWEST_MB_PER_SECOND", 0.1)  # other tests may use the disk, too
    rows = list(files(tmp_path, config))
    assert [row.check for row in rows] == ["rename", "locks", "fsync", "disk speed", "disk space"]
    assert [row.status for row in rows] == ["pass"] * 5, rows


def test_the_disk_must_hold_all_that_retention_keeps(tmp_path: Path, config: PretrainConfig) -> None:
    checkpoint_bytes = requirements_of(config, 1, 1).parameters.checkpoint_bytes
    free = shutil.disk_usage(tmp_path).free
    few = row_of(files(tmp_path, config), "disk space")
    config.monitor.mode = "watch"
    config.checkpoint.keep_unscored = 2 * free // checkpoint_bytes
    many = row_of(files(tmp_path, config), "disk space")
    assert (few.status, many.status) == ("pass", "fail")
    assert many.figures["checkpoints"] == few.figures["checkpoints"] + config.checkpoint.keep_unscored + 1


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
