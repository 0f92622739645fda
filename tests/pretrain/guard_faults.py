"""What tests of the guard do to a rank before it starts. Functions of a module, so that they can be sent to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from pretrain.data.loader import LoadedBatch
from pretrain.monitoring import rollback
from pretrain.optimizer import step as step_module

# Above it a step is at the tests' full learning rate, below it the rate was lowered.
FULL_RATE = 2e-4
LAST_STEP = 3  # of a run of four


def _die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_anything_is_undone() -> None:
    rollback.Rollbacks._keep_metrics = _die  # type: ignore[method-assign]


def die_after_the_first_checkpoint_is_removed() -> None:
    plain = rollback.remove_checkpoint

    def remove(path: Path) -> None:
        plain(path)
        _die()

    rollback.remove_checkpoint = remove


def die_before_it_is_marked_as_done() -> None:
    rollback.update_best = _die  # type: ignore[assignment]


def ask_to_stop_in_the_last_step() -> None:
    """As a scheduler does, at the latest moment that there is."""
    plain = step_module.Stepper._part

    def part(self: Any, loaded: LoadedBatch, values: Any, parts: int) -> Any:
        if loaded.step == LAST_STEP:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(self, loaded, values, parts)

    step_module.Stepper._part = part  # type: ignore[method-assign]


def nan_at_the_full_rate() -> None:
    """The losses of steps 5 and 6 are no numbers while the learning rate is the recipe's."""
    plain = step_module.Stepper._part

    def part(self: Any, loaded: LoadedBatch, values: Any, parts: int) -> Any:
        losses = plain(self, loaded, values, parts)
        if loaded.step in (5, 6) and values.lr > FULL_RATE:
            losses["total"] = losses["total"] * float("nan")
        return losses

    step_module.Stepper._part = part  # type: ignore[method-assign]
