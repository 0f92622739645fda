"""Real trainings of a few steps: those of a config, for its speed and memory, and tiny ones, for their numbers."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.tensor import DTensor

from panendofm.backbone import SafeReader
from panendofm.records.metrics import losses_of, read_metrics
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.console import quiet
from pretrain.config import PretrainConfig
from pretrain.parallel.world import World
from pretrain.run.checkpoints import training_state
from pretrain.selftest.memory import PeakMemory
from pretrain.signals import StopRequest
from pretrain.train import Trainer

# Of the first steps' time much goes into starting workers, compiling and warming caches.
_UNCOUNTED_STEPS = 2


@dataclass(frozen=True)
class RunMetrics:
    """What a short training was like; the same on every rank, but for the memory, which is the most of any."""

    losses: list[dict[str, float | None]]  # of each step; None: not finite
    step_seconds: float
    data_wait_share: float
    memory_bytes: int


@dataclass
class Training:
    """A short training on the ranks of `world`, with what is asked of it afterwards."""

    config: PretrainConfig
    world: World

    def __post_init__(self) -> None:
        self._trainer: Trainer | None = None

    def run(self) -> RunMetrics:
        """From the newest checkpoint to `run.stop_at`."""
        memory = PeakMemory(self.world.device)
        trainer = self._start()
        with quiet():
            trainer.train()
        lines = self.world.broadcast(read_metrics(self._folder.metrics) if self.world.is_first else None)
        counted = lines[_UNCOUNTED_STEPS:] or lines
        return RunMetrics(
            losses=[losses_of(line) for line in lines],
            step_seconds=median(line["speed"]["step_seconds"] for line in counted),
            data_wait_share=median(line["speed"]["data_wait_share"] for line in counted),
            memory_bytes=max(self.world.gather(memory.used_bytes())),
        )

    def changed_by_reloading(self) -> list[str]:
        """Throw all state away, load it from the checkpoint, and name this rank's tensors that came back changed."""
        saved = {name: _local(tensor).to("cpu", copy=True) for name, tensor in self._state().items()}
        self._trainer = None
        self._start()
        loaded = {name: _local(tensor).cpu() for name, tensor in self._state().items()}
        if loaded.keys() != saved.keys():
            return sorted(loaded.keys() ^ saved.keys())
        return [name for name, tensor in loaded.items() if not _same_bits(tensor, saved[name])]

    def loader_images_per_second(self, seconds: float) -> float:
        """What the config's workers read, decode and augment for this rank while it does nothing else."""
        trainer, workers = self._trained(), self.config.data.workers
        with quiet(), closing(trainer._loader(range(trainer.total_steps, trainer.total_steps + 10_000))) as loader:
            for _ in range(max(workers, 1)):  # what they had time for while they started
                loader.next()
            began, images = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:
                images += loader.next().batch.images
            return images / (time.perf_counter() - began)

    @property
    def checkpoint(self) -> Path:
        return self._folder.checkpoint(self._trained().step)

    @property
    def parameter_bytes(self) -> int:
        """Of the student, in the type in which it travels between ranks."""
        student = self._trained().objective.student
        size = 2 if self.config.sharding.param_type == "bfloat16" else 4
        return sum(p.numel() for p in student.parameters()) * size

    @property
    def _folder(self) -> RunFolder:
        return RunFolder(Path(self.config.run.dir))

    def _start(self) -> Trainer:
        with quiet():
            self._trainer = Trainer(self.config, self._folder, self.world, StopRequest())
        return self._trainer

    def _trained(self) -> Trainer:
        if self._trainer is None:
            raise RuntimeError("run() comes first")
        return self._trainer

    def _state(self) -> dict[str, Tensor]:
        trainer = self._trained()
        return training_state(trainer.objective, trainer.optimizer)


def train(config: PretrainConfig, world: World) -> RunMetrics:
    """A short training of which only the metrics and the checkpoint are wanted."""
    return Training(config, world).run()


def sharding_config(
    folder: Path, shards: Path, ranks: int, device: str, mode: str, param_type: str, group: int | None = None
) -> PretrainConfig:
    """Four steps of the smallest network with everything in it, the same images whatever the number of ranks."""
    heads = [
        f"objective.{head}.{key}"
        for head in ("dino_head", "ibot_head")
        for key in ("prototypes=32", "hidden=32", "bottleneck=16")
    ]
    words = [
        *(f"run.dir={folder}", f"data.shards={shards}", f"run.device={device}", "data.workers=0"),
        *(f"batch.images={4 * ranks}", "batch.microgroup_images=4", "augment.global_px=28", "augment.local_px=14"),
        *("augment.local_crops=2", "model.name=vit_test", "model.image_px=28", "model.depth=2", "model.drop_path=0.3"),
        # At 1e-5 the blocks' first gradients are no larger than AdamW's epsilon: rounding would decide their signs.
        *("model.layerscale_init=0.1", *heads, "schedule.total=4 steps", "schedule.warmup=1 steps"),
        *("schedule.freeze_last_layer=1 steps", "schedule.teacher_temperature_warmup=2 steps", "monitor.mode=none"),
        *("schedule.base_lr=0.008", "log.every_steps=1", "health.collapse_every_steps=0"),
        *(f"sharding.mode={mode}", f"sharding.param_type={param_type}", "checkpoint.every_steps=100"),
        *([f"sharding.ranks_per_shard_group={group}"] if group else []),
    ]
    return load_config(PretrainConfig, None, words)


def differences(one: Path, other: Path) -> tuple[float, str]:
    """Of two runs' newest weights: the largest ‖a − b‖ / ‖b‖ of a tensor, and which tensor that is."""
    ours, theirs = (_weights(RunFolder(run).selected_or_latest()) for run in (one, other))
    if ours.keys() != theirs.keys():
        return float("inf"), min(ours.keys() ^ theirs.keys())
    return max((_error(tensor, theirs[name]), name) for name, tensor in ours.items())


def _weights(checkpoint: Path) -> dict[str, Tensor]:
    """Put together from the parts of all ranks, but for the keys' bias: its gradient is rounding noise."""
    reader = SafeReader(checkpoint)
    stored = reader.read_metadata().state_dict_metadata
    state = {
        name: torch.empty(item.size, dtype=item.properties.dtype)
        for name, item in stored.items()
        if isinstance(item, TensorStorageMetadata) and name.startswith(("student.", "teacher."))
    }
    load(dict(state), storage_reader=reader, no_dist=True)
    return {name: tensor for name, tensor in state.items() if not name.endswith("attn.qkv.bias")}


def _error(found: Tensor, expected: Tensor) -> float:
    error = float((found - expected).norm() / expected.norm().clamp_min(1e-12))
    return error if error == error else float("inf")


def _local(tensor: Tensor) -> Tensor:
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other)
