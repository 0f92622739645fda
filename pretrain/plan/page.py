"""The plan as a page of figures. docs/plan-formulas.md has the formula of each."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from pretrain.config import PretrainConfig
from pretrain.data.augment import augment_jpeg
from pretrain.data.shards import open_shards
from pretrain.optimizer.schedules import steps_of
from pretrain.plan.hardware import REFERENCE_EFFICIENCY, Gpu
from pretrain.plan.memory import MemoryEstimate, Rows, flops_per_image, rows_of
from pretrain.plan.parameters import Parameters, checkpoint_bytes, count_parameters
from pretrain.run.setup import memory_of
from runtime.console import duration, say, table, warn
from runtime.errors import UserError

# Left free on a GPU: the CUDA context, NCCL's buffers, and gaps between tensors.
CUDA_CONTEXT_GB, FRAGMENTATION = 1.5, 0.08
# A frame of 640 × 512 pixels at JPEG quality 90, where no shards are there to be measured.
ASSUMED_IMAGE_BYTES = 70_000
SHARD_BYTES = 500_000_000


@dataclass(frozen=True)
class Machine:
    """What the run is to be planned for."""

    gpu: Gpu
    nodes: int
    gpus_per_node: int
    cpus_per_gpu: int
    time_minutes: int
    warn_seconds: int
    disk_gb_per_second: float = 1.0
    images_per_second: float | None = None  # of one GPU, measured; None: from the table

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node


@dataclass(frozen=True)
class Corpus:
    images: int
    bytes: int
    shards: int
    measured: bool


@dataclass(frozen=True)
class Plan:
    machine: Machine
    parameters: Parameters
    rows: Rows
    memory: MemoryEstimate
    memory_needed: float  # bytes on one GPU, with what must stay free
    corpus: Corpus
    steps: int
    tflop_per_image: float
    images_per_second: float  # of one GPU
    loader_seconds: float  # of one core, for one image
    checkpoint_bytes: int
    global_batch: int
    warnings: list[str]

    @property
    def images(self) -> int:
        return self.steps * self.global_batch

    @property
    def seconds(self) -> float:
        return self.images / (self.images_per_second * self.machine.gpus)

    @property
    def gpu_hours(self) -> float:
        return self.seconds * self.machine.gpus / 3600

    @property
    def cores_per_gpu(self) -> float:
        return self.images_per_second * self.loader_seconds

    @property
    def write_seconds(self) -> float:
        return self.checkpoint_bytes / (self.machine.disk_gb_per_second * 1e9)


def corpus_of(shards: str, images: int | None) -> Corpus:
    """Counted where the shards are there, else from the number of images that is planned."""
    if images is None and not Path(shards).is_dir():
        raise UserError(f"data.shards={shards} does not exist yet; say how many images it will hold with --images N.")
    if images is not None:
        total = images * ASSUMED_IMAGE_BYTES
        return Corpus(images, total, -(-total // SHARD_BYTES), measured=False)
    there = open_shards(shards)
    return Corpus(len(there), sum(path.stat().st_size for path in there.shards), len(there.shards), measured=True)


def loader_seconds_per_image(config: PretrainConfig, seconds: float) -> float:
    """Measured here and now, on one core: a frame of 640 × 512 pixels, decoded and cut into all its crops."""
    random = np.random.default_rng(0)
    shading = cv2.resize(random.integers(0, 255, (20, 16, 3), np.uint8), (640, 512))
    texture = cv2.GaussianBlur(random.normal(0, 18, (512, 640, 3)), (0, 0), 1.0)  # makes it as large as a real frame
    frame = np.clip(shading + texture, 0, 255).astype(np.uint8)
    data = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    augment_jpeg(data, config.augment, 0, 0, 0)
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        count += 1
        augment_jpeg(data, config.augment, 0, 0, count)
    torch.set_num_threads(threads)
    return (time.process_time() - began) / count


def make_plan(
    config: PretrainConfig, machine: Machine, images: int | None = None, measure_seconds: float = 1.0
) -> Plan:
    """The plan; `measure_seconds` is how long the loader is measured."""
    corpus = corpus_of(config.data.shards, images)
    warnings: list[str] = []
    try:
        rank_images = config.batch.groups_per_rank(machine.gpus) * config.batch.group_images
    except UserError as error:
        warnings.append(str(error))
        rank_images = max(config.batch.images // config.batch.accumulation_steps // machine.gpus, 1)
    parameters, vit = count_parameters(config), config.model.vit()
    memory = memory_of(config, machine.gpus, machine.gpus_per_node, rank_images)
    tflop = flops_per_image(vit, config.objective, config.augment, config.masks) / 1e12
    plan = Plan(
        machine=machine,
        parameters=parameters,
        rows=rows_of(vit, config.augment, config.masks, rank_images),
        memory=memory,
        memory_needed=memory.peak * (1 + FRAGMENTATION) + CUDA_CONTEXT_GB * 1e9,
        corpus=corpus,
        steps=_steps(config, corpus.images),
        tflop_per_image=tflop,
        images_per_second=machine.images_per_second or machine.gpu.tflops * REFERENCE_EFFICIENCY / tflop,
        loader_seconds=loader_seconds_per_image(config, measure_seconds),
        checkpoint_bytes=checkpoint_bytes(parameters),
        warnings=warnings,
        global_batch=config.batch.images,
    )
    warnings.extend(_warnings(plan, config))
    return plan


def _steps(config: PretrainConfig, corpus_images: int) -> int:
    """The schedule's length, or where the run is to end before it."""
    total = steps_of("schedule.total", config.schedule.total, config.batch.images, corpus_images)
    if config.run.stop_at is None:
        return total
    return min(total, steps_of("run.stop_at", config.run.stop_at, config.batch.images, corpus_images))


def _warnings(plan: Plan, config: PretrainConfig) -> list[str]:
    machine, found = plan.machine, []
    needed, there = plan.memory_needed / 1e9, machine.gpu.memory_gb
    if needed > there:
        found.append(
            f"the run needs {needed:.1f} GB on each GPU and {machine.gpu.name} has {there:.0f}: use more GPUs, "
            "execution.checkpoint_blocks=true, sharding.param_type=bfloat16 or batch.accumulation_steps."
        )
    if plan.cores_per_gpu > machine.cpus_per_gpu:
        found.append(
            f"the loader needs {plan.cores_per_gpu:.1f} cores for each GPU and gets {machine.cpus_per_gpu}: raise "
            f"cpus_per_task, or expect {machine.cpus_per_gpu / plan.loader_seconds:.0f} images/s per GPU."
        )
    if config.data.workers < min(plan.cores_per_gpu, machine.cpus_per_gpu) * 0.99:
        found.append(f"data.workers={config.data.workers} is fewer than the cores that the loader needs; raise it.")
    step_seconds = plan.seconds / plan.steps
    if machine.warn_seconds < plan.write_seconds + 2 * step_seconds:
        found.append(
            f"warn_seconds={machine.warn_seconds} is too short for a step and a checkpoint "
            f"({plan.write_seconds + 2 * step_seconds:.0f} s); raise it in the cluster file."
        )
    if config.checkpoint.every_steps * step_seconds > machine.time_minutes * 60:
        found.append("a checkpoint takes longer to come than a job may run; lower checkpoint.every_steps.")
    if plan.images > 20 * plan.corpus.images:
        times = plan.images / plan.corpus.images
        found.append(f"the run goes {times:.0f} times over the corpus; run.stop_at ends it earlier.")
    return found


def print_plan(plan: Plan) -> None:
    machine, memory, parameters = plan.machine, plan.memory, plan.parameters
    gpu = machine.gpu
    say(f"Plan for {machine.nodes} nodes × {machine.gpus_per_node} {gpu.name} ({gpu.source})")
    table("parameters", ["", "millions"], [
        ["backbone", f"{parameters.backbone / 1e6:,.3f}"],
        ["DINO head", f"{parameters.dino_head / 1e6:,.3f}"],
        ["iBOT head", f"{parameters.ibot_head / 1e6:,.3f}" if parameters.ibot_head else "shared"],
        ["student", f"{parameters.student / 1e6:,.3f}"],
        ["teacher", f"{parameters.student / 1e6:,.3f}"],
    ])  # fmt: skip
    title = f"memory of one GPU ({plan.rows.images} images, {plan.rows.student_tokens:,} student tokens at a time)"
    table(title, ["", "GB"], [
        ["student's parameters", _gb(memory.parameters)],
        ["optimiser", _gb(memory.optimizer)],
        ["teacher", _gb(memory.teacher)],
        ["images", _gb(memory.images)],
        ["activations of the backbone", _gb(memory.activations)],
        ["scores and targets of the heads", _gb(memory.heads)],
        ["gathered for the moment", _gb(memory.gathered)],
        ["gradients (after the activations)", _gb(memory.gradients)],
        ["peak", _gb(memory.peak)],
        [f"with context and gaps, of {gpu.memory_gb:.0f} GB", _gb(plan.memory_needed)],
    ])  # fmt: skip
    say("data and time")
    for name, text in _facts(plan):
        say(f"  {name:<11} {text}")
    for text in plan.warnings:
        warn(text)
    if not plan.warnings:
        say("It fits.")


def _facts(plan: Plan) -> list[tuple[str, str]]:
    machine, corpus, gpu = plan.machine, plan.corpus, plan.machine.gpu
    how = "counted" if corpus.measured else f"assumed: {ASSUMED_IMAGE_BYTES / 1000:.0f} kB each, shards of 500 MB"
    source = (
        "measured, given" if machine.images_per_second else f"{REFERENCE_EFFICIENCY:.0%} of {gpu.tflops:.0f} TFLOP/s"
    )
    all_gpus = plan.images_per_second * machine.gpus
    loader = f"{1000 * plan.loader_seconds:.0f} ms of a core per image (measured here)"
    limit = 60.0 * machine.time_minutes
    write = f"{duration(plan.write_seconds)} at {machine.disk_gb_per_second:g} GB/s"
    epochs = plan.images / corpus.images
    return [
        ("corpus", f"{corpus.images:,} images, {corpus.bytes / 1e9:,.1f} GB, {corpus.shards:,} shards ({how})"),
        ("training", f"{plan.steps:,} steps of {plan.global_batch:,} images = {epochs:.2f} data epochs"),
        ("work", f"{plan.tflop_per_image:.2f} TFLOP per image"),
        ("speed", f"{plan.images_per_second:.0f} images/s per GPU ({source}), {all_gpus:,.0f} in all"),
        ("loader", f"{loader} = {plan.cores_per_gpu:.1f} cores per GPU"),
        ("reading", f"{all_gpus * corpus.bytes / corpus.images / 1e6:,.0f} MB/s from the shards"),
        ("time", f"{duration(plan.seconds)} = {plan.gpu_hours:,.0f} GPU hours"),
        ("goes", f"{math.ceil(plan.seconds / limit)} of at most {duration(limit)}"),
        (
            "main memory",
            f"{machine.gpus_per_node * 8 * plan.parameters.student / 1e9:.1f} GB per node while a run starts",
        ),
        ("checkpoint", f"{plan.checkpoint_bytes / 1e9:.1f} GB, {write}"),
    ]


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f}"
