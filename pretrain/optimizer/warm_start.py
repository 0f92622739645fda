"""Going on from a backbone whose heads are gone, without losing what it knows.

Fresh heads send gradients that mean nothing, and a teacher that follows such a student forgets with it. So:

    heads   the backbone is frozen in student and teacher; heads and mask token learn from its features
    ramp    learning rate, weight decay, drop path, teacher momentum, layer decay and the iBOT loss go from "no change"
            to the recipe's values
    then    the recipe; a loss that holds the features near the starting ones stays, or fades

Everything is a function of the step and of one recorded fact: the step at which the heads' phase ended.
"""

from __future__ import annotations

import math
from dataclasses import replace

from panendofm.records.run import HeadsPhaseState
from panendofm.runtime.errors import UserError
from pretrain.optimizer.config import WarmStartConfig
from pretrain.schedules import Ramp, ResolvedSchedule, StepValues, steps_of

# Share of the heads' phase over which their learning rate rises from 0.
_HEADS_WARMUP = 0.1


class HeadsPhase:
    """How long the heads train alone: until a number of steps, or until their loss falls no more."""

    def __init__(self, longest_steps: int, window_steps: int, plateau: float) -> None:
        self.longest_steps = longest_steps
        self.end = longest_steps  # or earlier, once a window has said so
        self.window_steps = window_steps
        self.plateau = plateau
        self._sum = 0.0
        self._count = 0
        self._before = math.inf

    def record(self, step: int, loss: float) -> None:
        """The loss of a step that was done."""
        if self.plateau == 0 or step >= self.end or not math.isfinite(loss):
            return
        self._sum += loss
        self._count += 1
        if self._count == self.window_steps:
            mean = self._sum / self._count
            if mean > self._before * (1 - self.plateau):
                self.end = step + 1
            self._sum = 0.0
            self._count = 0
            self._before = mean

    def pending_at_most(self, step: int) -> int | None:
        """Steps that may be run from `step` on before their losses are recorded; None: no loss matters any more."""
        return None if self.plateau == 0 or step >= self.end else self.window_steps - self._count

    def state(self) -> HeadsPhaseState:
        """What a checkpoint has to hold for a resumed run to decide alike."""
        before = None if math.isinf(self._before) else self._before
        return HeadsPhaseState(self.end, self._sum, self._count, before)

    def load(self, state: HeadsPhaseState) -> None:
        self.end = state.end
        self._sum = state.sum
        self._count = state.count
        self._before = math.inf if state.before is None else state.before


class WarmSchedule:
    """The recipe's schedule, ramped up step by step."""

    def __init__(
        self, config: WarmStartConfig, recipe: ResolvedSchedule, global_batch: int, corpus_images: int | None
    ) -> None:
        def steps(name: str) -> int:
            return steps_of(f"warm_start.{name}", getattr(config, name), global_batch, corpus_images)

        self.config = config
        self.recipe = recipe
        self.heads_phase = HeadsPhase(steps("heads"), max(steps("heads_window"), 1), config.heads_plateau)
        self.ramp_steps = steps("ramp")
        self.fade_steps = None if config.anchor_fade is None else steps("anchor_fade")
        if self.longest_steps > recipe.total_steps:
            raise UserError(
                f"warm_start.heads ({self.heads_phase.end} steps) and warm_start.ramp ({self.ramp_steps} steps) exceed "
                f"schedule.total ({recipe.total_steps} steps); shorten them, or set warm_start.when=never."
            )
        peak = recipe.lr[1]
        self._heads_lr = peak if config.heads_lr is None else config.heads_lr * math.sqrt(global_batch / 1024)

    @property
    def longest_steps(self) -> int:
        """Steps until the recipe is in force, at the latest."""
        return self.heads_phase.longest_steps + self.ramp_steps

    def at(self, step: int) -> StepValues:
        """The values of a step, counted from 0."""
        values = self.recipe.at(step)
        end = self.heads_phase.end
        if step < end:
            lr = self._heads_lr * min(1.0, (step + 1) / max(1.0, _HEADS_WARMUP * end))
            frozen = Ramp(lr=0.0, weight_decay=0.0, teacher=0.0, drop_path=0.0)
            return replace(values, heads_lr=lr, last_layer_lr=_unless_frozen(values, lr), ramp=frozen)
        share = min(1.0, (step - end + 1) / self.ramp_steps) if self.ramp_steps else 1.0
        # The heads go over to the recipe's rate meanwhile; without a phase of their own they have it from the start.
        lr = values.lr if end == 0 else self._heads_lr + share * (values.lr - self._heads_lr)
        return replace(values, heads_lr=lr, last_layer_lr=_unless_frozen(values, lr), ramp=self._ramp(step, share))

    def _ramp(self, step: int, share: float) -> Ramp:
        config = self.config
        return Ramp(
            lr=share if config.ramp_lr else 1.0,
            weight_decay=share if config.ramp_weight_decay else 1.0,
            teacher=share if config.ramp_teacher else 1.0,
            layer_decay=config.ramp_layer_decay ** (1.0 - share),
            drop_path=share if config.ramp_drop_path else 1.0,
            ibot=share if config.ramp_ibot else 1.0,
            anchor=self._anchor(step),
        )

    def _anchor(self, step: int) -> float:
        if self.fade_steps is None:
            return 1.0
        gone = (step - self.heads_phase.end + 1) / self.fade_steps if self.fade_steps else 1.0
        return max(0.0, 1.0 - gone)

    def describe(self) -> str:
        config = self.config
        until = (
            f", or until their loss falls by less than {100 * config.heads_plateau:g}%" if config.heads_plateau else ""
        )
        fade = "stays" if self.fade_steps is None else f"fades over {self.fade_steps:,} steps"
        anchor = (
            "no anchor" if config.anchor == "none" else f"the anchor ({config.anchor}, {config.anchor_weight:g}) {fade}"
        )
        return (
            f"warm start: heads alone for {self.heads_phase.end:,} steps{until}; "
            f"then the recipe is ramped up over {self.ramp_steps:,} steps; {anchor}"
        )


def _unless_frozen(values: StepValues, lr: float) -> float:
    """The rate of the heads' last layers, which the recipe freezes at first."""
    return 0.0 if values.last_layer_lr == 0.0 else lr
