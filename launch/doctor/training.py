"""Ten real steps of the config: speed and memory beside the plan's, the loader beside what the steps eat."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from launch.doctor.page_cache import unflushed_pages
from launch.doctor.ranks import ranks_of
from launch.doctor.rows import Row, judged
from panendofm.runtime.errors import UserError
from pretrain import GPUS, REFERENCE_EFFICIENCY, PretrainConfig, Requirements, World, requirements_of
from pretrain.selftest import RunMetrics, Training, sharding_config

STEPS = 10
_FEW_STEPS = 4
_LONGEST_SECONDS = 240.0
_LOADER_SECONDS = 3.0
_MATMUL_SIDE, _MATMUL_SECONDS = 1024, 0.5
# Of the plan, what the smallest networks still reach; below that something is wrong.
_SLOW_SHARE = 0.3
# A planned step that is shorter than this says nothing about the device: starting its operations takes longer.
_JUDGED_SECONDS = 0.02
# The plan's estimate is good to 15%; on the CPU the allocator adds to that.
_MEMORY_SLACK, _MEMORY_SLACK_BYTES = 1.25, 300e6
_LESS_MEMORY = (
    "use more GPUs or fewer images, execution.checkpoint_blocks=true, sharding.param_type=bfloat16 or more "
    "batch.accumulation_steps"
)
_DATA_WAIT_SHARE = 0.25
_TRAFFIC_SHARE = 0.5


def steps_config(config: PretrainConfig, folder: Path) -> PretrainConfig:
    """The config as it is, but for its length, its folder and what goes on beside it."""
    schedule = replace(
        config.schedule,
        total="1000 steps",
        warmup="10 steps",
        freeze_last_layer="10 steps",
        teacher_temperature_warmup="100 steps",
    )
    return replace(
        config,
        run=replace(config.run, dir=str(folder), stop_at=f"{STEPS} steps"),
        schedule=schedule,
        log=replace(config.log, every_steps=1, wandb="none", tensorboard=False, sample_keys=False),
        monitor=replace(config.monitor, mode="none"),
        checkpoint=replace(config.checkpoint, every_steps=10_000),
        health=replace(config.health, collapse_every_steps=0),
    )


def check_training(world: World, config: PretrainConfig, folder: Path, bytes_per_second: float) -> Iterator[Row]:
    peak = matmul_flops_per_second(world.device, config.objective.compute_type)
    peak = min(world.gather(peak))
    config, why = _bearable(steps_config(config, folder), world, peak)
    needs = requirements_of(config, world.size, world.local_size)
    available = min(world.gather(_available_bytes(world)))
    if config.run.stop_at == "0 steps":
        yield Row("steps", "warn", why, "run the doctor where the training will run")
        return
    if needs.memory.peak > available:
        found = f"a rank needs {needs.memory.peak / 1e9:.1f} GB and has {available / 1e9:.1f} GB"
        yield Row("memory", "fail", found, _LESS_MEMORY)
        return
    training = Training(config, world)
    try:
        figures = training.run()
    except torch.OutOfMemoryError:
        raise UserError(
            f"the GPU's memory was used up by a step that was planned to take {needs.memory.peak / 1e9:.1f} of "
            f"{available / 1e9:.1f} GB; {_LESS_MEMORY}."
        ) from None
    images = config.batch.images / world.size  # of a rank and step
    planned, by = planned_images_per_second(world.device, config.objective.compute_type, needs, peak)
    yield _steps(figures, images, planned, by, needs.flops_per_image / peak, why)
    yield _memory(figures, needs)
    yield _traffic(world, figures, training, bytes_per_second)
    yield _data(world, figures, images, training)
    yield _checkpoint(world, training)


def acceptable_steps(world: World, config: PretrainConfig, images: Path) -> PretrainConfig:
    """A config of a few steps that this machine gets through: its own, fewer images, or the smallest network."""
    peak = min(world.gather(matmul_flops_per_second(world.device, config.objective.compute_type)))
    steps, _ = _bearable(steps_config(config, images), world, peak)
    if steps.run.stop_at == f"{STEPS} steps":
        return steps
    return sharding_config(images, images, world.size, world.device.type, "fsdp", config.sharding.param_type)


def _bearable(config: PretrainConfig, world: World, peak: float) -> tuple[PretrainConfig, str]:
    """The config with fewer images or steps where this machine would sit over it for hours; and what was changed."""

    def seconds(candidate: PretrainConfig, steps: int) -> float:
        work = requirements_of(candidate, world.size, world.local_size).flops_per_image * candidate.batch.images
        return steps * work / world.size / (peak * REFERENCE_EFFICIENCY)

    if seconds(config, STEPS) <= _LONGEST_SECONDS:
        return config, ""
    small = replace(
        config, batch=replace(config.batch, images=2 * world.size, microgroup_images=2, accumulation_steps=1)
    )
    for steps in (STEPS, _FEW_STEPS):
        if seconds(small, steps) <= _LONGEST_SECONDS:
            shorter = replace(small, run=replace(small.run, stop_at=f"{steps} steps"))
            return shorter, f" (2 images a rank instead of {config.batch.images // world.size}: it would take too long)"
    said = f"{_FEW_STEPS} steps of 2 images would take {seconds(small, _FEW_STEPS) / 60:.0f} minutes here: left out"
    return replace(config, run=replace(config.run, stop_at="0 steps")), said


def matmul_flops_per_second(device: torch.device, compute_type: str) -> float:
    """What this device really reaches in the products that training consists of."""
    half = device.type == "cuda" and compute_type == "bfloat16"
    side = _MATMUL_SIDE * (8 if device.type == "cuda" else 1)
    a = torch.randn(side, side, device=device, dtype=torch.bfloat16 if half else torch.float32)
    torch.mm(a, a)
    _wait(device)
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < _MATMUL_SECONDS:
        torch.mm(a, a)
        count += 1
        _wait(device)
    return 2.0 * side**3 * count / (time.perf_counter() - began)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _available_bytes(world: World) -> float:
    if world.device.type == "cuda":
        return float(torch.cuda.mem_get_info(world.device)[0])
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) * 1024
    return free / world.local_size


def planned_images_per_second(
    device: torch.device, compute_type: str, needs: Requirements, peak: float
) -> tuple[float, str]:
    """By the plan's own formula; with the measured peak where its table does not know the device or the type."""
    if device.type == "cuda" and compute_type == "bfloat16":
        name = torch.cuda.get_device_name(device).lower()
        memory_gb = torch.cuda.get_device_properties(device).total_memory / 1e9
        known = [gpu for gpu in GPUS.values() if gpu.name.split("-")[0] in name]
        if known:
            gpu = min(known, key=lambda candidate: abs(candidate.memory_gb - memory_gb))
            return gpu.tflops * 1e12 * REFERENCE_EFFICIENCY / needs.flops_per_image, f"as {gpu.name}"
    return peak * REFERENCE_EFFICIENCY / needs.flops_per_image, "by its matrix products"


def _steps(figures: RunMetrics, images: float, planned: float, by: str, peak_seconds: float, why: str) -> Row:
    """`peak_seconds`: what an image would take at the peak of this device."""
    speed = images / figures.step_seconds
    share = speed * peak_seconds
    finite = all(value is not None for losses in figures.losses for value in losses.values())
    figures_of_row = {
        "images_per_second": round(speed, 2),
        "planned_images_per_second": round(planned, 2),
        "share_of_peak": round(share, 3),
        "step_seconds": round(figures.step_seconds, 4),
    }
    if not finite:
        found, remedy = "a loss was not finite", "train with objective.compute_type=float32, and report it"
        return Row("steps", "fail", found, remedy, figures_of_row)
    found = f"{speed:.1f} images/s a rank, {planned:.1f} planned {by}; {share:.0%} of the peak{why}"
    small = images / planned < _JUDGED_SECONDS
    if small:
        found = f"{speed:.1f} images/s a rank; too small a step to be compared with the plan"
    remedy = (
        "look at the row 'data rate' first; then at other processes on the machine (nvidia-smi, top), the device's "
        "clock, and execution.attention"
    )
    return judged("steps", small or speed >= _SLOW_SHARE * planned, found, remedy, "warn", **figures_of_row)


def _memory(figures: RunMetrics, needs: Requirements) -> Row:
    measured, planned = figures.memory_bytes, needs.memory.peak
    found = f"{measured / 1e9:.2f} GB a rank, {planned / 1e9:.2f} GB planned"
    remedy = "the plan is wrong for this config: leave more room than it says, and report it with doctor.json"
    good = measured <= planned * _MEMORY_SLACK + _MEMORY_SLACK_BYTES
    return judged("memory", good, found, remedy, "warn", measured_bytes=measured, planned_bytes=planned)


def _traffic(world: World, figures: RunMetrics, training: Training, bytes_per_second: float) -> Row:
    """Parameters are gathered twice, gradients reduced once, and the teacher gathered once, at the measured speed."""
    seconds = 4 * training.parameter_bytes / bytes_per_second if world.size > 1 else 0.0
    share = seconds / figures.step_seconds
    found = f"{seconds:.3f} s of a step of {figures.step_seconds:.3f} s, if nothing ran beside it"
    remedy = (
        "use the fast network (NCCL_SOCKET_IFNAME, NCCL_IB_HCA in the cluster file's environment), sharding.mode=hsdp, "
        "sharding.param_type=bfloat16, or more images a rank"
    )
    return judged("traffic", share <= _TRAFFIC_SHARE, found, remedy, "warn", seconds=round(seconds, 4))


def _data(world: World, figures: RunMetrics, images: float, training: Training) -> Row:
    """The loader alone, on all ranks at once, against the steps without what they waited for it."""
    world.broadcast(None)
    loaded = min(world.gather(training.loader_images_per_second(_LOADER_SECONDS)))
    eaten = images / (figures.step_seconds * max(1 - figures.data_wait_share, 1e-3))
    found = (
        f"{loaded:.0f} images/s a rank decoded and augmented, the steps eat {eaten:.0f} and waited "
        f"{figures.data_wait_share:.0%} of their time"
    )
    remedy = (
        "raise data.workers and the cluster file's cpus_per_task; shards on a slow disk: data.cache; "
        "a loader that is starved can't be cured by more GPUs"
    )
    good = loaded >= eaten and figures.data_wait_share <= _DATA_WAIT_SHARE
    return judged("data rate", good, found, remedy, "warn", loaded=round(loaded, 1), eaten=round(eaten, 1))


def _checkpoint(world: World, training: Training) -> Row:
    """What all ranks have saved is on the disk, and comes back bit by bit into networks that were made anew."""
    checkpoint = training.checkpoint
    files = sorted(path for path in checkpoint.iterdir() if path.is_file()) if world.is_first else []
    left = [unflushed_pages(path) for path in files]
    size = sum(path.stat().st_size for path in files)
    world.broadcast(None)
    began = time.perf_counter()
    changed = [name for names in world.gather(training.changed_by_reloading()) for name in names]
    seconds = max(world.gather(time.perf_counter() - began))
    problems = [f"{len(changed)} tensors came back changed ({changed[0]})"] if changed else []
    if any(left):
        problems.append(f"{sum(pages or 0 for pages in left)} pages of it are still in memory only")
    found = f"{size / 1e6:,.0f} MB saved by {ranks_of(world)}, loaded in {seconds:.1f} s, the same bits"
    remedy = "put run.dir on another file system, and report it with doctor.json: this run could not be resumed exactly"
    return judged("checkpoint", not problems, "; ".join(problems) or found, remedy)
