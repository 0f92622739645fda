"""A few steps of a run on tensors without content, as one rank of a world that is not there."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import _disable_current_modes

from panendofm.backbone import ViTConfig
from panendofm.runtime.errors import UserError
from pretrain.build import sharded_on_meta, take_weights
from pretrain.config import PretrainConfig
from pretrain.distill_teacher import planned_teacher_form
from pretrain.monitoring.health import collapse_metrics
from pretrain.monitoring.monitor import Teacher
from pretrain.objective.drop_path import DropPath
from pretrain.objective.objective import Objective, own_part
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.optimizer.step import Stepper, read_results
from pretrain.parallel.world import World
from pretrain.plan.work import ASSUMED_IMAGES
from pretrain.rehearsal.batches import batches_of
from pretrain.rehearsal.places import Origins, place_of
from pretrain.rehearsal.watcher import Collective, RehearsalError, Watcher
from pretrain.run.checkpoints import stage, training_state
from pretrain.schedules import resolve_schedule
from pretrain.sharding import is_left_whole, make_mesh, torch_type_of

_WATCHED_STEPS = 2  # the second finds optimizer state, buffers and FSDP's streams as the first has left them
_MEASURED_STEPS = 3
_EVALUATION_IMAGES = 64
# What stands for a masked patch: objectives that mask nothing don't train it.
_MASK_TOKEN = "backbone.mask_token"


@dataclass(frozen=True)
class HostCost:
    """What a step costs the host, and what it takes of a device that counts allocations and computes nothing."""

    seconds: float  # of one core: Python, dispatch, autograd, FSDP
    kernels: int
    peak_bytes: int  # torch's own allocator


@dataclass(frozen=True)
class RankRehearsal:
    """What one rank did."""

    rank: int
    collectives: list[Collective]  # of the whole rehearsal, in the order in which the rank entered them
    step_collectives: list[Collective]  # of the last step
    operations: int  # of the last step
    cost: HostCost | None  # None where it was not measured


@contextmanager
def fake_world(rank: int, size: int, local_size: int, device: torch.device) -> Iterator[World]:
    """A world of so many ranks in which only this one exists; its collectives return at once."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    try:
        group = dist.group.WORLD
        assert group is not None
        yield World(rank, size, local_size, device, group, group)
    finally:
        dist.destroy_process_group()


def rehearse_rank(
    config: PretrainConfig,
    rank: int,
    size: int,
    local_size: int,
    device: torch.device,
    measured: bool = False,
    traced: bool = False,
) -> RankRehearsal:
    """Build, train, stage a checkpoint and evaluate; a `RehearsalError` says what would go wrong, and where.

    `traced` keeps, for every operation, where the forward pass made it: slower, and then faults of the backward pass
    have a place of their own.
    """
    half = config.objective.compute_type == "bfloat16" or config.sharding.param_type == "bfloat16"
    with ExitStack() as stack:
        world = stack.enter_context(fake_world(rank, size, local_size, device))
        stack.enter_context(torch.autograd.set_detect_anomaly(traced, check_nan=False))
        stack.enter_context(torch.backends.cudnn.flags(enabled=False))  # it wants a real device to plan with
        if config.execution.compile:
            # Graphs are traced, and run operation by operation: code for a device needs one.
            stack.enter_context(torch.compiler.set_stance("default", force_backend="aot_eager"))
        try:
            run = FakeRun(config, world)
            with ExitStack() as modes:
                if device.type == "cpu":
                    modes.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
                watcher = modes.enter_context(Watcher(device, half))
                last, operations = _watched(run, watcher)
            cost = run.measure() if measured and device.type == "cuda" else None
            return RankRehearsal(rank, watcher.collectives, last, operations, cost)
        except (RehearsalError, UserError):
            raise
        except Exception as error:
            what = f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}"
            raise RehearsalError(what, place_of(error)) from error


class FakeRun:
    """A run of one rank whose tensors have no content: on the null CUDA runtime, or in a FakeTensorMode."""

    def __init__(self, config: PretrainConfig, world: World) -> None:
        self.config = config
        self.world = world
        self.schedule = resolve_schedule(config.schedule, config.batch.images, ASSUMED_IMAGES)
        with Origins() as self.origins:
            mesh = make_mesh(config.sharding, world.size, world.local_size, world.device.type)
            teacher = planned_teacher_form(config)
            if teacher is not None and not isinstance(teacher.network, ViTConfig):
                raise UserError(
                    f"distill.teacher={config.distill.teacher} is a network of another family, whose weights have "
                    "content and can't be rehearsed; rehearse with a teacher of pretrain of the same size."
                )
            vit, trainable = config.model.vit(), config.model.trainable
            self.objective = sharded_on_meta(
                vit,
                config.trained_objective,
                config.execution,
                config.sharding,
                mesh,
                trainable,
                ASSUMED_IMAGES,
                teacher,
            )

    def start(self) -> None:
        """Weights, optimizer and stepper, as the trainer makes them."""
        config, world = self.config, self.world
        # On the host, as a run draws it.
        whole = {name: torch.empty(t.shape, dtype=t.dtype) for name, t in self.objective.state_dict().items()}
        self.objective.to_empty(device=world.device)
        refuse_misplaced_tensors(self.objective, config, world, self.origins)
        take_weights(self.objective, whole)
        self.optimizer = build_optimizer(self.objective.student, config.optimizer)
        drop_path = DropPath(
            config.model.vit(), config.batch.microgroup_images, config.augment.local_crops, config.run.seed
        )
        # As on a GPU, also where a CPU plays one.
        self.stepper = Stepper(self.objective, self.optimizer, config.optimizer.clip_norm, drop_path, world, True)

    def step(self, number: int) -> float:
        """A step; the processor time that it took."""
        with _disable_current_modes():  # the loader works in processes of its own
            parts = batches_of(self.config, self.world, number)
        began = time.process_time()
        pending = self.stepper.run(parts, self.schedule.at(number))
        read_results([pending])
        return time.process_time() - began

    def save_and_evaluate(self) -> None:
        """A checkpoint's staging, the measures of a collapse, and features as the monitor takes them."""
        stage(training_state(self.objective, self.optimizer), {}, self.world.device)
        with _disable_current_modes():
            (part, *_) = batches_of(self.config, self.world, 0)
        collapse_metrics(self.objective, part.batch.to(self.world.device), self.schedule.at(0).teacher_temperature)
        side = self.config.augment.global_px
        images = torch.empty(_EVALUATION_IMAGES, 3, side, side, device=self.world.device)
        with torch.inference_mode():
            for student in ("", *self.config.distill.students):
                Teacher(self.objective, student)(images)

    def measure(self) -> HostCost:
        """Further steps with nobody watching, on the null CUDA runtime."""
        self.step(_WATCHED_STEPS)
        torch.cuda.reset_peak_memory_stats()
        kernels = _launched_kernels()
        seconds = min(self.step(_WATCHED_STEPS + 1 + number) for number in range(_MEASURED_STEPS))
        launched = (_launched_kernels() - kernels) // _MEASURED_STEPS
        return HostCost(seconds, launched, torch.cuda.max_memory_allocated())


def _watched(run: FakeRun, watcher: Watcher) -> tuple[list[Collective], int]:
    """Everything once, under the eyes of the watcher: the last step's collectives, and how many operations."""
    with watcher.host_may_wait():
        run.start()
    began = 0, 0
    for number in range(_WATCHED_STEPS):
        began = len(watcher.collectives), watcher.operations
        run.step(number)
    last = watcher.collectives[began[0] :]
    operations = watcher.operations - began[1]
    refuse_untrained_parameters(run)
    watcher.refuse_uncovered_products()
    run.save_and_evaluate()
    return last, operations


def _launched_kernels() -> int:
    """By the null CUDA runtime's own count."""
    count = ctypes.CDLL(None).null_cuda_kernels
    count.restype = ctypes.c_longlong
    return int(count())


def refuse_misplaced_tensors(objective: Objective, config: PretrainConfig, world: World, origins: Origins) -> None:
    """Every parameter and buffer must be on the device, and every parameter sharded."""
    whole = is_left_whole(world.size, torch_type_of(config.sharding))
    filled = objective.state_dict().keys()
    for prefix, module in objective.named_modules():
        for kind, tensors in (("parameter", module._parameters), ("buffer", module._buffers)):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                full_name = f"{prefix}.{name}".removeprefix(".")
                what = f"{kind} '{full_name}'"
                if full_name not in filled:
                    raise RehearsalError(f"{what} is not saved, so a run never fills it", origins.of(module, name))
                if tensor.is_meta:
                    raise RehearsalError(f"{what} was left on meta: it has no memory", origins.of(module, name))
                if tensor.device.type != world.device.type:
                    raise RehearsalError(f"{what} is on {tensor.device}", origins.of(module, name))
                if kind == "parameter" and not whole and not isinstance(tensor, DTensor):
                    what += " is not sharded: every rank would train its own"
                    raise RehearsalError(what, origins.of(module, name))


def refuse_untrained_parameters(run: FakeRun) -> None:
    """Every parameter that trains has a gradient, and the optimizer knows it."""
    known = {id(parameter) for group in run.optimizer.param_groups for parameter in group["params"]}
    masks = run.config.objective.kind == "dinov2" and run.config.masks.crop_probability > 0
    for name, parameter in run.objective.student.named_parameters():
        trains = parameter.requires_grad and (masks or own_part(name) != _MASK_TOKEN)
        if trains and (parameter.grad is None or id(parameter) not in known):
            lacks = "no gradient" if parameter.grad is None else "no place in the optimizer"
            place = run.origins.of_name(run.objective.student, name)
            raise RehearsalError(f"parameter 'student.{name}' has {lacks} after a step", place)
