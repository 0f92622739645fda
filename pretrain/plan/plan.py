"""The plan of a training: what its requirements mean on a machine, in time, storage and cores."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch

from panendofm.runtime.errors import UserError
from pretrain.config import PretrainConfig
from pretrain.data.augment import prepare_jpeg
from pretrain.data.storage.shards import open_shards
from pretrain.plan.choices import Choice, choice_of, choices_of
from pretrain.plan.hardware import REFERENCE_EFFICIENCY, Gpu, network_named
from pretrain.plan.memory import memory_with_context
from pretrain.plan.requirements import Requirements, objective_on_meta, requirements_of

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
    network: str = "ib-200"  # between nodes

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
    needs: Requirements
    corpus: Corpus
    steps: int
    images_per_second: float  # of one GPU
    loader_seconds: float  # of one core, for one image
    warnings: list[str]
    choice: Choice | None  # the config's own way over the cluster; None: its ranks can't share the batch
    choices: list[Choice]  # all ways, the best first

    @property
    def memory_needed(self) -> float:
        """Bytes on one GPU, with what must stay free."""
        return memory_with_context(self.needs.memory)

    @property
    def images(self) -> int:
        return self.steps * self.needs.step_images

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
        return self.needs.parameters.checkpoint_bytes / (self.machine.disk_gb_per_second * 1e9)


def corpus_of(shards: str, images: int | None) -> Corpus:
    """Counted where the shards are there, else from the number of images that is planned."""
    if images is None and not Path(shards).is_dir():
        raise UserError(f"data.shards={shards} does not exist yet; say how many images it will hold with --images N.")
    if images is not None:
        total = images * ASSUMED_IMAGE_BYTES
        return Corpus(images, total, -(-total // SHARD_BYTES), measured=False)
    opened = open_shards(shards)
    return Corpus(len(opened), int(opened.shard_bytes.sum()), len(opened.shards), measured=True)


def loader_seconds_per_image(config: PretrainConfig, seconds: float) -> float:
    """Measured here and now, on one core: a frame of 640 × 512 pixels, decoded and made into all its crops.

    With `augment.where=gpu` only what is left to the workers.
    """
    random = np.random.default_rng(0)
    shading = cv2.resize(random.integers(0, 255, (20, 16, 3), np.uint8), (640, 512))
    texture = cv2.GaussianBlur(random.normal(0, 18, (512, 640, 3)), (0, 0), 1.0)  # makes it as large as a real frame
    frame = np.clip(shading + texture, 0, 255).astype(np.uint8)
    data = cv2.imencode(".jpg", frame, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    prepare_jpeg(data, config.augment, 0, 0, 0)
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        count += 1
        prepare_jpeg(data, config.augment, 0, 0, count)
    torch.set_num_threads(threads)
    return (time.process_time() - began) / count


def make_plan(
    config: PretrainConfig, machine: Machine, images: int | None = None, measure_seconds: float = 1.0
) -> Plan:
    """The plan; `measure_seconds` is how long the loader is measured."""
    corpus = corpus_of(config.data.shards, images)
    warnings: list[str] = []
    try:
        rank_images = config.batch.images_per_rank(machine.gpus)
    except UserError as error:
        warnings.append(str(error))
        rank_images = max(config.batch.images // config.batch.accumulation_steps // machine.gpus, 1)
    needs = requirements_of(config, machine.gpus, machine.gpus_per_node, rank_images)
    reference_speed = machine.gpu.tflops * 1e12 * REFERENCE_EFFICIENCY / needs.flops_per_image
    network = network_named(machine.network, machine.gpu)
    place = (machine.gpu, network, machine.nodes, machine.gpus_per_node, needs.flops_per_image)
    objective = objective_on_meta(config)
    plan = Plan(
        machine=machine,
        needs=needs,
        corpus=corpus,
        steps=config.total_steps(corpus.images),
        images_per_second=machine.images_per_second or reference_speed,
        loader_seconds=loader_seconds_per_image(config, measure_seconds),
        warnings=warnings,
        choice=None if warnings else choice_of(config, objective, *place),
        choices=choices_of(config, objective, *place),
    )
    warnings.extend(_warnings(plan, config))
    return plan


def _warnings(plan: Plan, config: PretrainConfig) -> list[str]:
    machine, warnings = plan.machine, []
    needed, available = plan.memory_needed / 1e9, machine.gpu.memory_gb
    if needed > available:
        warnings.append(
            f"the run needs {needed:.1f} GB on each GPU and {machine.gpu.name} has {available:.0f}: use more GPUs, "
            "execution.checkpoint_blocks=true, sharding.param_type=bfloat16 or batch.accumulation_steps."
        )
    if plan.cores_per_gpu > machine.cpus_per_gpu:
        warnings.append(
            f"the loader needs {plan.cores_per_gpu:.1f} cores for each GPU and gets {machine.cpus_per_gpu}: raise "
            f"cpus_per_task, or expect {machine.cpus_per_gpu / plan.loader_seconds:.0f} images/s per GPU."
        )
    if config.data.workers < min(plan.cores_per_gpu, machine.cpus_per_gpu) * 0.99:
        warnings.append(f"data.workers={config.data.workers} is fewer than the cores that the loader needs; raise it.")
    step_seconds = plan.seconds / plan.steps
    if machine.warn_seconds < plan.write_seconds + 2 * step_seconds:
        warnings.append(
            f"warn_seconds={machine.warn_seconds} is too short for a step and a checkpoint "
            f"({plan.write_seconds + 2 * step_seconds:.0f} s); raise it in the cluster file."
        )
    if config.checkpoint.every_steps * step_seconds > machine.time_minutes * 60:
        warnings.append("a checkpoint takes longer to come than a job may run; lower checkpoint.every_steps.")
    if plan.images > 20 * plan.corpus.images:
        times = plan.images / plan.corpus.images
        warnings.append(f"the run goes {times:.0f} times over the corpus; run.stop_at ends it earlier.")
    return warnings
