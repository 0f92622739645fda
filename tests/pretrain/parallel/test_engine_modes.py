"""Real runs in every mode: sharding, precision, checkpointed and compiled blocks, parts, logs, a watcher beside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_faults import count_compiled_graphs, report_types_of_collectives
from engine_runs import (
    assert_same_run,
    finish,
    metrics_of,
    monitored,
    run_ranks,
    start_ranks,
    tensors_of,
    words_of,
    write_classes,
)

LOSSES = ("total", "dino_local", "dino_global", "ibot", "koleo")
SHORT = {"schedule__total": "6 steps"}


def assert_same_losses(one: Path, other: Path, tolerance: float) -> None:
    ours, theirs = metrics_of(one), metrics_of(other)
    assert [line["keys"] for line in ours] == [line["keys"] for line in theirs]
    for a, b in zip(ours, theirs, strict=True):
        for loss in LOSSES:
            assert a[loss] == pytest.approx(b[loss], rel=tolerance), f"{loss} at step {a['step']}"


def largest_difference(one: Path, other: Path, step: int, left_out: tuple[str, ...] = ()) -> tuple[float, str]:
    """Of all tensors of two checkpoints: |a − b| over the tensor's own largest value, and whose it is."""
    ours, theirs = (tensors_of(run / "checkpoints" / f"step_{step:07d}") for run in (one, other))
    assert ours.keys() == theirs.keys()
    return max(
        (float((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max().clamp_min(1e-12)), name)
        for name in ours
        if name not in left_out
    )


@pytest.mark.slow
def test_hybrid_sharding_on_two_by_two_ranks_equals_plain_sharding(shards: Path, tmp_path: Path) -> None:
    plain, hybrid = tmp_path / "fsdp", tmp_path / "hsdp"
    run_ranks(words_of(plain, shards, **SHORT), 4)
    mode = {"sharding__mode": "hsdp", "sharding__ranks_per_shard_group": 2}
    said = run_ranks(words_of(hybrid, shards, **SHORT, **mode), 4)
    assert "4 ranks on cpu, sharding hsdp" in said
    assert_same_losses(hybrid, plain, 1e-5)
    # What two replicas have alike is written once.
    sizes = [sum(f.stat().st_size for f in run.glob("checkpoints/step_0000006/*.distcp")) for run in (plain, hybrid)]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.1)
    # A checkpoint of the one goes on as the other.
    run_ranks(words_of(tmp_path / "moved", shards, **SHORT, run__stop_at="3 steps"), 4)
    run_ranks(words_of(tmp_path / "moved", shards, **SHORT, **mode), 4)
    assert_same_losses(tmp_path / "moved", plain, 1e-5)


@pytest.mark.slow
def test_replicas_equal_shards(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run_ranks(words_of(tmp_path / "replicas", shards, sharding__mode="replicate"), 2)
    assert_same_losses(tmp_path / "replicas", undisturbed, 1e-5)


@pytest.mark.slow
def test_bf16_parameters_travel_as_bf16_and_gradients_as_fp32(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run = tmp_path / "bf16"
    said = run_ranks(words_of(run, shards, sharding__param_type="bfloat16"), 2, sabotage=report_types_of_collectives)
    assert "parameters gathered as torch.bfloat16" in said
    assert "parameters gathered as torch.float32" not in said
    assert "gradients reduced as torch.float32" in said
    assert "gradients reduced as torch.bfloat16" not in said
    ours, theirs = metrics_of(run), metrics_of(undisturbed)
    assert ours[0]["total"] == pytest.approx(theirs[0]["total"], rel=0.02)
    assert ours[0]["total"] != theirs[0]["total"]
    assert ours[-1]["total"] == pytest.approx(theirs[-1]["total"], rel=0.1)
    weights = tensors_of(run / "checkpoints" / "step_0000012")
    assert {t.dtype for t in weights.values()} == {torch.float32}
    moved = weights["student.backbone.blocks.0.mlp.fc1.weight"]
    assert not torch.equal(moved.bfloat16().float(), moved), "the shards have lost what bf16 can't hold"


@pytest.mark.slow
def test_recomputed_blocks_change_no_bit(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    run_ranks(words_of(tmp_path / "recomputed", shards, execution__checkpoint_blocks=True), 2)
    assert_same_run(undisturbed, tmp_path / "recomputed", 12)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_compiled_blocks_give_the_same_losses(shards: Path, undisturbed: Path, tmp_path: Path) -> None:
    said = run_ranks(
        words_of(tmp_path / "compiled", shards, execution__compile=True, run__timeout_seconds=300),
        2,
        sabotage=count_compiled_graphs,
        timeout=500,
    )
    # On each of two ranks, with sharded blocks: one graph for all of the student's, one for the teacher's.
    assert re.findall(r"^compiled graphs: (\d+)$", said, re.MULTILINE) == ["2", "2"]
    assert re.findall(r"^graph breaks: (.*)$", said, re.MULTILINE) == ["{}", "{}"]
    assert_same_losses(tmp_path / "compiled", undisturbed, 1e-4)


@pytest.mark.slow
def test_a_run_in_parts_equals_the_run_at_once(shards: Path, tmp_path: Path) -> None:
    """With centering, whose targets do not depend on the other samples of a part; Sinkhorn-Knopp's do.

    Teacher and center are equal at the end, so they have moved once a step and not once a part.
    """
    changes = {**SHORT, "objective__targets": "centering", "objective__ibot_weight": 0.0, "optimizer__epsilon": 1e-3}
    run_ranks(words_of(tmp_path / "once", shards, **changes), 2)
    run_ranks(words_of(tmp_path / "parts", shards, **changes, batch__accumulation_steps=2), 2)
    assert_same_losses(tmp_path / "parts", tmp_path / "once", 1e-5)
    # The patch center is the mean of ranks' and parts' means, whose numbers of masked patches differ.
    difference, name = largest_difference(tmp_path / "parts", tmp_path / "once", 6, ("ibot_targets.center",))
    assert difference < 1e-3, name
    center = tensors_of(tmp_path / "once" / "checkpoints" / "step_0000006")["dino_targets.center"]
    assert float(center.abs().max()) > 0


@pytest.mark.slow
def test_logs_of_a_resumed_run_go_on_where_they_were(shards: Path, tmp_path: Path) -> None:
    """W&B offline under one id, TensorBoard without a step twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tmp_path / "run"
    logs = {"log__wandb": "offline", "log__tensorboard": True}
    run_ranks(words_of(run, shards, **logs, run__stop_at="5 steps"), 2)
    identity = (run / "wandb_id").read_text()
    ranks = start_ranks(words_of(run, shards, **logs, schedule__total="12 steps"), 2)
    finish(ranks)
    assert (run / "wandb_id").read_text() == identity
    parts = sorted((run / "wandb").glob("offline-run-*"))
    assert len(parts) == 2
    for part in parts:
        assert part.name.endswith(f"-{identity}")
        content = (part / f"run-{identity}.wandb").read_bytes()
        assert b"gradient_norm/backbone" in content
    board = EventAccumulator(str(run / "tensorboard"))
    board.Reload()
    events = board.Scalars("total")
    assert [event.step for event in events] == list(range(12))
    assert [event.value for event in events] == pytest.approx([line["total"] for line in metrics_of(run)], rel=1e-6)


@pytest.mark.slow
def test_a_watcher_in_another_process_stops_the_run(shards: Path, tmp_path: Path) -> None:
    """`python -m eval_knn RUN watch=true` scores checkpoints as they come; the trainer reads the results and ends."""
    classes, run = write_classes(tmp_path / "classes"), tmp_path / "run"
    patience = {
        "monitor__mode": "watch",
        "monitor__evaluation__selection__minimum_gain": 1.0,  # nothing counts as a gain
        "monitor__evaluation__selection__patience_evaluations": 2,
    }
    words = monitored(run, shards, classes, **patience, schedule__total="20000 steps", checkpoint__every_steps=20)
    ranks = start_ranks([*words, "log.every_steps=20", "checkpoint.keep_last=3"], 2)
    prefix = "monitor.evaluation."
    evaluation = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
    while not run.is_dir():
        time.sleep(0.05)
    command = [sys.executable, "-m", "eval_knn", str(run), "watch=true", *evaluation]
    watcher = subprocess.run(
        [*command, "watcher.poll_seconds=0.2", "watcher.idle_seconds=10"],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    codes, said = finish(ranks, 30)
    assert watcher.returncode == 0, watcher.stderr
    assert codes == [0, 0], said
    assert "top1_k3 has not risen" in said
    evaluated = sorted((run / "eval").glob("knn_step_*.json"))
    assert len(evaluated) >= 3
    chosen = json.loads((run / "eval" / "knn_selection.json").read_text())["checkpoint"]
    assert (run / "best").resolve() == run.resolve() / "checkpoints" / chosen
    assert (run / "best" / "checkpoint.json").is_file()
    steps = [line["step"] for line in metrics_of(run)]
    assert len(steps) < 1000
    assert np.all(np.diff(steps) > 0)
