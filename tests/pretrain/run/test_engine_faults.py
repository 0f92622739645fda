"""Stops, non-finite steps, damaged data, full disks, torn checkpoints: each ends as specified and loses nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_faults import (
    BAD_STEP,
    nan_from_step_three_on,
    nan_on_rank_one,
    nan_on_rank_one_decided_on_device,
    no_room_for_large_files,
    rank_zero_sleeps,
    step_three_does_nothing,
    weights_become_infinite,
)
from engine_runs import (
    Rank,
    assert_same_run,
    finish,
    metrics_of,
    run_ranks,
    start_ranks,
    tensors_of,
    words_of,
    write_shards,
)
from torch import equal

from panendofm.backbone import load_backbone
from panendofm.records.run import EXIT_REQUEUE, RunFolder, RunInfo
from panendofm.runtime.errors import UserError


def wait_for_steps(run: Path, steps: int) -> None:
    deadline = time.monotonic() + 60
    metrics = run / "metrics.jsonl"
    while not metrics.exists() or metrics.read_text().count("\n") < steps:
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.01)


def children_of(rank: Rank) -> list[int]:
    pid = rank.process.pid
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def checkpoints_of(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "checkpoints").iterdir())


def test_stop_signals_save_and_ask_for_a_requeue(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "stopped"
    words, done = words_of(run, shards), 0
    for number, victim in ((signal.SIGTERM, 0), (signal.SIGUSR2, 1)):
        ranks = start_ranks(words, 2)
        wait_for_steps(run, done + 2)
        ranks[victim].signal(number)  # one rank is told, both stop at the same step
        codes, said = finish(ranks, 60)
        assert codes == [EXIT_REQUEUE] * 2, said
        done = len(metrics_of(run))
        assert f"step_{done:07d}" in checkpoints_of(run)
    run_ranks(words, 2)
    assert_same_run(undisturbed, run, 12)


def test_the_command_under_torchrun(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    """As a user types it, with loader workers; the other runs are forked, to save the time of importing torch."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "pretrain"]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *words_of(tmp_path / "run", shards, data__workers=1)],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "12 steps of 16 images = 1.60 data epochs" in done.stdout
    assert_same_run(undisturbed, tmp_path / "run", 12)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_hangs_ends_the_others(shards: Path, tmp_path: Path, victim: int) -> None:
    """A stopped process answers nothing and closes nothing: only the time limit ends the other."""
    run, other = tmp_path / "hanging", 1 - victim
    ranks = start_ranks(words_of(run, shards, schedule__total="4000 steps", run__timeout_seconds=15), 2)
    wait_for_steps(run, 2)
    ranks[victim].signal(signal.SIGSTOP)
    began = time.monotonic()
    ranks[other].process.join(60)
    assert ranks[other].code not in (None, 0)
    assert time.monotonic() - began > 10  # given up after run.timeout_seconds, not before
    ranks[victim].signal(signal.SIGKILL)
    finish(ranks)


@pytest.mark.slow
def test_a_rank_that_dies_ends_the_others_also_where_loaders_outlive_it(shards: Path, tmp_path: Path) -> None:
    """A rank's loader workers hold its connections open for a while after it was killed."""
    run = tmp_path / "run"
    words = words_of(run, shards, schedule__total="4000 steps", run__timeout_seconds=600, data__workers=2)
    ranks = start_ranks(words, 2)
    wait_for_steps(run, 2)
    workers = children_of(ranks[1])
    assert len(workers) == 2
    ranks[1].signal(signal.SIGKILL)
    ranks[0].process.join(60)
    assert ranks[0].code not in (None, 0)
    finish(ranks)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline, "a killed rank's workers go on without it"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_rank_that_dies_is_noticed_by_one_that_calls_no_collective(shards: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    ranks = start_ranks(words_of(run, shards, run__timeout_seconds=600), 2, sabotage=rank_zero_sleeps)
    wait_for_steps(run, BAD_STEP)
    time.sleep(1)
    ranks[1].signal(signal.SIGKILL)
    ranks[0].process.join(60)
    codes, said = finish(ranks)
    assert codes[0] == 1
    assert "RankLostError: another rank is gone" in said


def test_a_non_finite_loss_on_one_rank_skips_the_step_on_all(shards: Path, tmp_path: Path) -> None:
    words = {name: words_of(tmp_path / name, shards, schedule__total="6 steps") for name in ("spoiled", "expected")}
    said = run_ranks(words["spoiled"], 2, sabotage=nan_on_rank_one)
    assert f"step {BAD_STEP} is skipped on all ranks: non-finite loss or gradient; loss of ranks: 1." in said
    run_ranks(words["expected"], 2, sabotage=step_three_does_nothing)
    spoiled, expected = (tensors_of(tmp_path / name / "checkpoints" / "step_0000006") for name in words)
    assert [name for name in expected if not equal(spoiled[name], expected[name])] == []
    lines = metrics_of(tmp_path / "spoiled")
    assert [line.get("skipped", False) for line in lines] == [step == BAD_STEP for step in range(6)]
    assert lines[BAD_STEP]["total"] is None
    assert lines[BAD_STEP + 1]["total"] == metrics_of(tmp_path / "expected")[BAD_STEP + 1]["total"]
    # Results that stay on the device for five steps: the same weights, the step is named and has its line.
    said = run_ranks(
        words_of(tmp_path / "sparse", shards, schedule__total="6 steps", log__every_steps=5, checkpoint__every_steps=6),
        2,
        sabotage=nan_on_rank_one_decided_on_device,
    )
    assert f"step {BAD_STEP} is skipped on all ranks: non-finite loss or gradient; loss of ranks: 1." in said
    sparse = tensors_of(tmp_path / "sparse" / "checkpoints" / "step_0000006")
    assert [name for name in expected if not equal(sparse[name], expected[name])] == []
    assert metrics_of(tmp_path / "sparse") == [lines[0], lines[BAD_STEP], lines[4], lines[5]]  # 4: collapse figures


def test_many_non_finite_steps_end_the_run_with_a_report(shards: Path, tmp_path: Path) -> None:
    words = words_of(tmp_path, shards, health__max_skipped_steps=2, checkpoint__every_steps=3)
    said = run_ranks(words, 1, expect=2, sabotage=nan_from_step_three_on)
    assert "2 steps in a row were non-finite, the last one is 4" in said
    report = json.loads((tmp_path / "non_finite.json").read_text())
    assert [rank["rank"] for rank in report["ranks"]] == [0]
    assert len(report["ranks"][0]["samples"]) == 16
    assert checkpoints_of(tmp_path) == ["step_0000003"]


def test_a_disk_that_fills_up_leaves_the_last_checkpoint_intact(
    shards: Path, undisturbed: Path, tmp_path: Path
) -> None:
    run = tmp_path / "full"
    run_ranks(words_of(run, shards, run__stop_at="6 steps"), 2)
    said = run_ranks(words_of(run, shards), 2, expect=2, sabotage=no_room_for_large_files)
    assert "training goes on, the checkpoints before it are intact" in said  # at step 9
    assert "error: could not save a checkpoint" in said  # at the end
    assert checkpoints_of(run) == ["step_0000003", "step_0000006"]
    run_ranks(words_of(run, shards), 2)
    assert_same_run(undisturbed, run, 12)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for a run and three checkpoints of 1.6 MB, not for many more."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting a small file system is not allowed here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("free_bytes", [1_200_000, 400_000])  # enough for one rank's part of a checkpoint, or for none
def test_a_full_disk_leaves_the_last_checkpoint_intact(
    shards: Path, undisturbed: Path, small_disk: Path, asynchronous: bool, free_bytes: int
) -> None:
    """ENOSPC from the kernel. With room again, the run ends as if nothing had been."""
    run = small_disk / "run"
    words = words_of(run, shards, checkpoint__asynchronous=asynchronous)
    run_ranks([*words, "run.stop_at=6 steps"], 2)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(shutil.disk_usage(small_disk).free - free_bytes))
    codes, said = finish(start_ranks(words, 2))
    assert 2 in codes, said
    assert not {0, None} & set(codes), said
    assert "the disk is full" in said
    if not asynchronous:  # else training may meet the full disk first, when it writes its metrics
        assert codes == [2, 2]
        assert "training goes on, the checkpoints before it are intact" in said  # at step 9
        assert "error: could not save a checkpoint" in said  # at the end
    kept = [name for name in checkpoints_of(run) if not name.startswith(".")]
    assert kept == ["step_0000003", "step_0000006"]
    ballast.unlink()
    run_ranks(words, 2)
    assert_same_run(undisturbed, run, 12)


def test_an_unreadable_sample_is_replaced_and_the_order_stays(undisturbed: Path, shards: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "shards"
    shutil.copytree(shards, damaged)
    key, offset, size, *_ = json.loads((damaged / "shard-000001.index.json").read_text())["samples"][7]
    with (damaged / "shard-000001.tar").open("r+b") as tar:
        tar.seek(offset)
        tar.write(bytes(size))
    said = run_ranks(words_of(tmp_path / "run", damaged), 1)
    assert f"unreadable sample replaced: {key} in shard-000001.tar" in said
    expected = [k for line in metrics_of(undisturbed) for k in line["keys"]]
    seen = [k for line in metrics_of(tmp_path / "run") for k in line["keys"]]
    assert key in expected
    assert key not in seen
    assert [theirs for theirs, ours in zip(expected, seen, strict=True) if ours != theirs] == [key] * expected.count(
        key
    )
    assert sum(line.get("unreadable_samples", 0) for line in metrics_of(tmp_path / "run")) == expected.count(key)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    folder = write_shards(tmp_path / "shards")
    (folder / "shard-000002.tar").unlink()
    said = run_ranks(words_of(tmp_path / "run", folder), 1, expect=2)
    assert f"error: the shard {folder / 'shard-000002.tar'} is missing" in said


def test_damaged_checkpoints_are_named_and_passed_over(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run_ranks(words_of(run, shards, run__stop_at="10 steps", checkpoint__keep_last=4), 2)
    folder = run / "checkpoints"
    assert checkpoints_of(run) == ["step_0000003", "step_0000006", "step_0000009", "step_0000010"]
    torn = folder / "step_0000010" / "__0_0.distcp"
    torn.write_bytes(torn.read_bytes()[:-100])
    foreign = json.loads((folder / "step_0000009" / "checkpoint.json").read_text())
    foreign["vit"]["width"] = 64
    (folder / "step_0000009" / "checkpoint.json").write_text(json.dumps(foreign))
    # The right size, and a form that torch reads: only the checksum tells that 64 bytes of a tensor are others.
    garbled = folder / "step_0000006" / "__1_0.distcp"
    content = bytearray(garbled.read_bytes())
    place = content.index(tensor_bytes(folder / "step_0000006")) + 64
    content[place : place + 64] = bytes(byte ^ 1 for byte in content[place : place + 64])
    garbled.write_bytes(content)
    with pytest.raises(UserError, match=r"step_0000006: its file __1_0\.distcp is damaged"):
        load_backbone(folder / "step_0000006")
    said = run_ranks(words_of(run, shards), 2)
    assert "step_0000010 is passed over: its file __0_0.distcp has" in said
    assert "step_0000009 is passed over: it is of another architecture" in said
    assert "step_0000006 is passed over: its file __1_0.distcp is damaged" in said
    assert "resuming from step 3" in said
    assert_same_run(undisturbed, run, 12)


def tensor_bytes(checkpoint: Path) -> bytes:
    """The second half of a tensor that two ranks share: as it lies in the file of rank 1."""
    weight = tensors_of(checkpoint)["teacher.backbone.blocks.0.mlp.fc1.weight"]
    return weight[len(weight) // 2 :].contiguous().numpy().tobytes()


def test_a_damaged_latest_checkpoint_is_passed_over_by_whoever_loads_the_run(shards: Path, tmp_path: Path) -> None:
    run_ranks(words_of(tmp_path, shards, run__stop_at="6 steps"), 1)
    file = tmp_path / "checkpoints/step_0000006/__0_0.distcp"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert load_backbone(tmp_path).origin.step == 3


def test_weights_that_are_not_finite_are_never_saved(shards: Path, tmp_path: Path) -> None:
    said = run_ranks(words_of(tmp_path, shards), 2, expect=2, sabotage=weights_become_infinite)
    assert "holds values that are not finite (NaN or infinity); the run ends" in said
    assert checkpoints_of(tmp_path) == ["step_0000003"]
    assert all(tensor.isfinite().all() for tensor in tensors_of(tmp_path / "checkpoints/step_0000003").values())


def test_steps_that_are_skipped_push_no_good_checkpoint_out(shards: Path, tmp_path: Path) -> None:
    words = words_of(tmp_path, shards, health__max_skipped_steps=20, checkpoint__every_steps=1, checkpoint__keep_last=2)
    run_ranks(words, 1, sabotage=nan_from_step_three_on)
    kept = checkpoints_of(tmp_path)
    assert kept[:2] == ["step_0000002", "step_0000003"], "the newest two of the steps that did anything"


def test_a_run_goes_on_only_with_the_settings_it_began_with(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(undisturbed, run, symlinks=True)
    said = run_ranks(words_of(run, shards, optimizer__beta2=0.95), 1, expect=2)
    assert "can't go on exactly with another optimizer.beta2 (it was 0.999, now it is 0.95)" in said
    other = write_shards(tmp_path / "other", videos=31)
    said = run_ranks(words_of(run, other), 1, expect=2)
    assert f"data.shards={other} does not hold the samples that the run {run} began with" in said
    said = run_ranks(words_of(run, shards, checkpoint__every_steps=7, data__workers=2), 1)
    assert "nothing to do: the run has ended at step 12 of 12" in said
    record = RunFolder(run)
    for info in (RunInfo(total_steps=12, order_version=1), None):  # runs of before that keep no record
        record.info.unlink()
        if info is not None:
            record.write_info(info)
        said = run_ranks(words_of(run, shards, schedule__total="12 steps"), 1, expect=2)
        assert f"error: the run {run} began with version 1 of the data order and this program has version 2" in said
        record.write_info(RunInfo(total_steps=12, order_version=2))
    said = run_ranks(words_of(tmp_path / "three", shards), 3, expect=2)
    assert "3 ranks can't share 4 microgroups of batch.microgroup_images=4 evenly" in said
