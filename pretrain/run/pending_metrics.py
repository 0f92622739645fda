"""Steps that are done, or under way on the device, and whose metrics the host has not yet waited for."""

from __future__ import annotations

from dataclasses import dataclass

from panendofm.records.metrics import StepMetrics
from pretrain.optimizer.step import PendingResult, StepResult, read_results
from pretrain.schedules import StepValues


@dataclass(frozen=True)
class RunStep:
    """A step as the host knows it before its result is there."""

    number: int
    values: StepValues
    keys: list[list[str]]  # of this rank's samples, part by part
    wait_seconds: float  # spent waiting for data since the start, as a mean over ranks
    further: StepMetrics  # what is logged beside the step's own metrics
    is_logged: bool


class PendingMetrics:
    """Keeps the results of steps on the device until they are wanted."""

    def __init__(self) -> None:
        self._steps: list[tuple[RunStep, PendingResult]] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: RunStep, result: PendingResult) -> None:
        self._steps.append((step, result))

    def read(self) -> list[tuple[RunStep, StepResult]]:
        """All of them, in order. The host waits for the device here, once for all."""
        steps = self._steps
        self._steps = []
        results = read_results([result for _, result in steps])
        return [(step, result) for (step, _), result in zip(steps, results, strict=True)]
