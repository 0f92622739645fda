"""The plan's figures: exact where they can be, against the public record and a measured run where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.data.augment.config import AugmentConfig
from pretrain.data.augment.cpu import Crops, prepare_jpeg
from pretrain.data.augment.params import AugmentParams
from pretrain.plan.hardware import GPUS, gpu_named
from pretrain.plan.memory import MemoryEstimate
from pretrain.plan.page import print_plan
from pretrain.plan.parameters import Parameters
from pretrain.plan.plan import Machine, Plan, loader_seconds_per_image, make_plan
from pretrain.plan.requirements import requirements_of
from pretrain.plan.rows import rows_of

A100S = Machine(gpu_named("a100-80"), nodes=4, gpus_per_node=8, cpus_per_gpu=12, time_minutes=1440, warn_seconds=120)


def config_of(*words: str) -> PretrainConfig:
    return load_config(PretrainConfig, None, ["run.dir=x", "data.shards=/missing", *words])


def parameters_of(config: PretrainConfig) -> Parameters:
    return requirements_of(config, 1, 1).parameters


def memory_of(config: PretrainConfig, ranks: int, ranks_per_node: int, images: int | None = None) -> MemoryEstimate:
    return requirements_of(config, ranks, ranks_per_node, images).memory


def plan_of(config: PretrainConfig, machine: Machine, images: int | None = None) -> Plan:
    return make_plan(config, machine, images, measure_seconds=0.1)


def test_parameters_of_the_published_run() -> None:
    """304,368,640: the released ViT-L/14. A head: three layers with biases, then prototypes with their magnitudes."""
    parameters = parameters_of(config_of())
    assert parameters.backbone == 304_368_640
    before = 1024 * 2048 + 2048 + 2048 * 2048 + 2048
    assert parameters.heads["dino_head"] == before + 2048 * 384 + 384 + 131072 * (384 + 1)
    assert parameters.heads["ibot_head"] == before + 2048 * 256 + 256 + 131072 * (256 + 1)
    assert parameters.checkpoint_bytes == 16 * parameters.student
    assert "ibot_head" not in parameters_of(config_of("objective.separate_ibot_head=false")).heads


def test_work_per_image_agrees_with_the_public_record() -> None:
    """1.37 TFLOP for L/14 and 1.15 for L/16 by the short recipe."""
    short = ("model.name=vit_large_patch16", "augment.local_px=96", "model.drop_path=0.3")
    heads = [f"objective.dino_head.{key}" for key in ("prototypes=65536", "bottleneck=256")]
    large16 = config_of(*short, *heads, "objective.separate_ibot_head=false")
    for config, tflop in ((config_of(), 1.37), (large16, 1.15)):
        assert requirements_of(config, 32, 8).flops_per_image == pytest.approx(tflop * 1e12, rel=0.02)


def test_rows_are_counted_as_the_engine_draws_them() -> None:
    config = config_of("model.drop_path=0.4")
    rows = rows_of(config, 32)
    assert rows.student_tokens == 64 * 257 + 256 * 50
    assert rows.branch_tokens == int(64 * 0.6) * 257 + int(256 * 0.6) * 50
    assert rows.cls_rows == 10 * 32
    assert rows.patch_rows == round(32 * 0.3 * 256)


def test_more_ranks_shard_the_state_and_nothing_else() -> None:
    config = config_of()
    one, many = (memory_of(config, ranks, 8, images=32) for ranks in (1, 32))
    # The position embedding's first dimension is 1, so the first rank has all of it.
    uncut = 4 * 1370 * 1024
    assert one.parameters == 4 * parameters_of(config).student
    assert one.parameters / 32 <= many.parameters < one.parameters / 32 * 1.001 + uncut
    assert many.optimizer == 2 * many.parameters and many.activations == one.activations
    assert (many.activations, many.images) == (one.activations, one.images)
    assert many.heads > one.heads, "several ranks gather a head whole, and have it twice for a moment"
    whole = memory_of(config_of("sharding.mode=replicate"), 32, 8)
    assert whole.parameters == one.parameters
    small = memory_of(config_of("execution.checkpoint_blocks=true"), 32, 8)
    assert small.activations < many.activations / 4


def test_the_page_for_the_published_run(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("schedule.total=2 data epochs", "schedule.warmup=0.2 data epochs", "data.workers=12")
    config = config_of(*words, "sharding.param_type=bfloat16")
    plan = plan_of(config, A100S, images=10_000_000)
    assert plan.steps == 19_531
    assert plan.images_per_second == pytest.approx(70, rel=0.02), "the reference's own speed on this GPU"
    assert plan.gpu_hours == pytest.approx(19_531 * 1024 / plan.images_per_second / 3600)
    assert plan.needs == requirements_of(config, 32, 8), "what 'python -m pretrain estimate --ranks 32' says"
    print_plan(plan)
    page = capsys.readouterr().out
    for text in (
        "304.369",
        "19,531 steps of 1,024 images = 2.00 data epochs",
        "TFLOP per image",
        "GPU hours",
        "6.4 GB",
    ):
        assert text in page, text


def test_a_run_that_ends_before_its_schedule() -> None:
    plan = plan_of(config_of("run.stop_at=2 data epochs"), A100S, images=10**7)
    assert plan.steps == 19_531 and not any("times over the corpus" in text for text in plan.warnings)


def test_what_does_not_fit_is_said() -> None:
    tight = replace(A100S, gpu=gpu_named("v100-32"), cpus_per_gpu=1, warn_seconds=5)
    warnings = " ".join(plan_of(config_of("batch.images=2048"), tight, images=10_000_000).warnings)
    assert "GB on each GPU and v100-32 has 32" in warnings
    assert "warn_seconds=5 is too short" in warnings
    assert "times over the corpus" in warnings
    fast = replace(A100S, gpu=gpu_named("h100-80"), cpus_per_gpu=1, images_per_second=2000)
    assert any("cores for each GPU and gets 1" in text for text in plan_of(config_of(), fast, images=10**7).warnings)
    odd = replace(A100S, nodes=3)
    assert any("ranks can't share" in text for text in plan_of(config_of(), odd, images=10_000_000).warnings)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="did you mean 'a100-80'"):
        gpu_named("a100-8")
    with pytest.raises(UserError, match="--images N"):
        plan_of(config_of(), A100S)
    assert all(gpu.source for gpu in GPUS.values())


def test_the_loader_is_measured_on_the_crops_of_the_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that counts crops, twice as much for colored ones: seconds depend on what else the machine does."""
    clock = 0.0

    def prepare(data: bytes, config: AugmentConfig, seed: int, epoch: int, key: int) -> tuple[Crops, AugmentParams]:
        nonlocal clock
        (large, local), params = prepare_jpeg(data, config, seed, epoch, key)
        clock += len(large + local) * (1 if config.where == "gpu" else 2)
        return (large, local), params

    monkeypatch.setattr("pretrain.plan.plan.prepare_jpeg", prepare)
    monkeypatch.setattr("pretrain.plan.plan.time.process_time", lambda: clock)
    measured = [
        loader_seconds_per_image(config_of(*words), seconds=50)
        for words in ([], ["augment.local_crops=0"], ["augment.local_crops=3"], ["augment.where=gpu"])
    ]
    assert measured == [20, 4, 10, 10]


# Sizes at which different parts of the memory lead: activations, state, recomputed blocks, heads.
_SMALL = {
    "model.name": "vit_small_patch14", "model.depth": 12, "model.image_px": 112, "augment.global_px": 112,
    "augment.local_px": 42, "augment.local_crops": 4, "batch.images": 8, "batch.microgroup_images": 8,
    "objective.dino_head.prototypes": 8192, "objective.dino_head.hidden": 1024, "objective.dino_head.bottleneck": 256,
    "objective.ibot_head.prototypes": 8192, "objective.ibot_head.hidden": 1024, "objective.ibot_head.bottleneck": 256,
    "health.collapse_every_steps": 0, "schedule.total": "3 steps", "schedule.warmup": "1 steps",
    "checkpoint.every_steps": 100,  # a checkpoint is first copied in main memory, on a GPU machine too
}  # fmt: skip
_MEASURED = {
    "activations": {},
    "state": {"batch.images": 2, "batch.microgroup_images": 2},
    "recomputed": {"execution.checkpoint_blocks": "true", "model.drop_path": 0.0},
    "heads": {"model.depth": 2, "objective.dino_head.prototypes": 65536, "objective.ibot_head.prototypes": 65536},
}


def _measured_and_estimated(folder: Path, shards: Path, changes: dict[str, object]) -> tuple[float, float]:
    """Peak memory in GB of a real training process, and what the plan says."""
    from engine_runs import words_of

    words = words_of(folder, shards, **{name.replace(".", "__"): value for name, value in changes.items()})
    # Without this, glibc keeps freed blocks for itself, and the process looks larger than its tensors.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    subprocess.run([sys.executable, "-m", "pretrain", *words], check=True, env=environment, capture_output=True)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    config = load_config(PretrainConfig, None, words)
    return lines[-1]["speed"]["memory_gb"], memory_of(config, 1, 1).peak / 1e9


@pytest.mark.slow
@pytest.mark.parametrize("case", sorted(_MEASURED))
def test_the_memory_estimate_is_within_15_percent_of_a_measured_run(tmp_path: Path, case: str) -> None:
    """Against a run of the smallest network, which stands for Python, torch and the loader."""
    from engine_runs import write_shards

    shards = write_shards(tmp_path / "shards", side=128)
    base = _measured_and_estimated(
        tmp_path / "base", shards, {"health.collapse_every_steps": 0, "checkpoint.every_steps": 100}
    )
    run = _measured_and_estimated(tmp_path / "run", shards, {**_SMALL, **_MEASURED[case]})
    measured, estimated = run[0] - base[0], run[1] - base[1]
    print(f"{case}: measured {measured:.3f} GB, estimated {estimated:.3f} GB, ratio {estimated / measured:.3f}")
    assert measured > 0.3, "too small to say anything"
    assert estimated == pytest.approx(measured, rel=0.15)
