"""What tests do to a rank before it starts. Functions of a module, so that they can be sent to another process."""

from __future__ import annotations

import multiprocessing.util
import resource
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._dynamo.utils import counters
from torch.distributed.tensor import DTensor

from panendofm.backbone import Tokens
from panendofm.runtime.console import rank
from pretrain.data.batch import Batch
from pretrain.data.loader import LoadedBatch
from pretrain.objective.dinov2 import DinoObjective
from pretrain.optimizer import step as step_module
from pretrain.optimizer.adamw import ShardedAdamW
from pretrain.schedules import Ramp

BAD_STEP = 3


def nan_on_rank_one() -> None:
    """Rank 1's loss of step 3 is not a number."""
    if rank() == 1:
        _spoil_losses(lambda step: step == BAD_STEP)


def nan_from_step_three_on() -> None:
    _spoil_losses(lambda step: step >= BAD_STEP)


def _spoil_losses(at: Any) -> None:
    plain = step_module.Stepper._part

    def part(self: Any, loaded: LoadedBatch, values: Any, parts: int) -> Any:
        forward = self.objective.forward

        def spoiled(*arguments: Any) -> Any:
            losses = forward(*arguments)
            losses["total"] = losses["total"] * float("nan")
            return losses

        if at(loaded.step):
            self.objective.forward = spoiled
        try:
            return plain(self, loaded, values, parts)
        finally:
            self.objective.forward = forward

    step_module.Stepper._part = part  # type: ignore[method-assign]


def weights_become_infinite() -> None:
    """At step 5 a weight of the student turns infinite, after gradients that were not."""
    optimizer_step = ShardedAdamW.step
    calls = 0

    def step(self: Any, unless: Any = None) -> None:
        nonlocal calls
        calls += 1
        optimizer_step(self, unless)
        if calls == 6:
            weight = self.param_groups[0]["params"][0].detach()
            (weight.to_local() if isinstance(weight, DTensor) else weight).view(-1)[:1] = torch.inf

    ShardedAdamW.step = step  # type: ignore[method-assign]


def step_three_does_nothing() -> None:
    """What a skipped step should amount to, written another way: neither optimizer nor teacher move at step 3."""
    optimizer_step, update = ShardedAdamW.step, DinoObjective.update_teacher
    calls = {"optimizer": 0, "teacher": 0}

    def step(self: Any, unless: Any = None) -> None:
        calls["optimizer"] += 1
        if calls["optimizer"] != BAD_STEP + 1:
            optimizer_step(self, unless)

    def update_teacher(self: DinoObjective, *arguments: Any) -> None:
        calls["teacher"] += 1
        if calls["teacher"] != BAD_STEP + 1:
            update(self, *arguments)

    ShardedAdamW.step = step  # type: ignore[method-assign]
    DinoObjective.update_teacher = update_teacher  # type: ignore[method-assign]


def rank_zero_sleeps() -> None:
    """Rank 0's step 3 takes ten minutes, as a collective on the GPU may that waits for a rank that is gone."""
    if rank() == 0:
        plain = step_module.Stepper._part

        def part(self: Any, loaded: LoadedBatch, values: Any, parts: int) -> Any:
            if loaded.step == BAD_STEP:
                time.sleep(600)
            return plain(self, loaded, values, parts)

        step_module.Stepper._part = part  # type: ignore[method-assign]


def report_types_of_collectives() -> None:
    """Say which types parameters and gradients have on their way between ranks."""
    seen = set()

    def reporting(plain: Any, what: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            tensor = options.get("input", options.get("input_tensor", arguments[1] if len(arguments) > 1 else None))
            if (what, tensor.dtype) not in seen:
                seen.add((what, tensor.dtype))
                print(f"{what} as {tensor.dtype}", flush=True)
            return plain(*arguments, **options)

        return call

    dist.all_gather_single = reporting(dist.all_gather_single, "parameters gathered")
    dist.reduce_scatter_single = reporting(dist.reduce_scatter_single, "gradients reduced")


def count_compiled_graphs() -> None:
    """Say at the end how many graphs torch.compile has made in this process, and where it had to break them."""

    def say_it() -> None:
        print(f"compiled graphs: {counters['stats']['unique_graphs']}", flush=True)
        print(f"graph breaks: {dict(counters['graph_break'])}", flush=True)

    multiprocessing.util.Finalize(None, say_it, exitpriority=1)  # such processes run no other exit functions


def no_room_for_large_files() -> None:
    """The kernel refuses to let any file grow past 100 kB, as a full disk would; a checkpoint's are larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def decide_on_device() -> None:
    """Steps as on a GPU: the host does not learn from a step whether it was skipped."""
    plain = step_module.Stepper.__init__

    def prepare(self: Any, *arguments: Any) -> None:
        plain(self, *arguments)
        self.decides_on_device = True

    step_module.Stepper.__init__ = prepare  # type: ignore[method-assign]


def nan_on_rank_one_decided_on_device() -> None:
    decide_on_device()
    nan_on_rank_one()


def add_a_loss() -> None:
    """As somebody would who adds one: an entry in `DinoObjective.further_losses`, and nothing else."""
    plain = DinoObjective.further_losses

    def further(self: DinoObjective, tokens: Tokens, batch: Batch, ramp: Ramp) -> dict[str, Tensor]:
        spread = 0.01 * (1 - tokens.cls.float().std(dim=0)).relu().mean()
        return {**plain(self, tokens, batch, ramp), "variance": spread}

    DinoObjective.further_losses = further  # type: ignore[method-assign]
