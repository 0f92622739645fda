"""What tests do to a rank before it starts. Functions of a module, so that they can be sent to another process."""

from __future__ import annotations

import resource
from typing import Any

import torch

from pretrain import step as step_module
from pretrain.loader import LoadedBatch
from pretrain.objective import Objective
from runtime.console import rank

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


def step_three_does_nothing() -> None:
    """What a skipped step should amount to, written another way: neither optimiser nor teacher move at step 3."""
    optimizer_step, update = torch.optim.AdamW.step, Objective.update_teacher
    calls = {"optimizer": 0, "teacher": 0}

    def step(self: Any) -> None:
        calls["optimizer"] += 1
        if calls["optimizer"] != BAD_STEP + 1:
            optimizer_step(self)

    def update_teacher(self: Objective, *momenta: float) -> None:
        calls["teacher"] += 1
        if calls["teacher"] != BAD_STEP + 1:
            update(self, *momenta)

    torch.optim.AdamW.step = step  # type: ignore[method-assign, assignment]
    Objective.update_teacher = update_teacher  # type: ignore[method-assign]


def no_room_for_large_files() -> None:
    """The kernel refuses to let any file grow past 100 kB, as a full disk would; a checkpoint's are larger."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
