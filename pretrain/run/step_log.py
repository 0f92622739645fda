"""The line that a logged step leaves, in the metrics and on the console."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median

from panendofm.records.metrics import TOTAL, StepMetrics
from panendofm.records.run import RunFolder
from panendofm.runtime.console import duration, say
from pretrain.config import PretrainConfig
from pretrain.optimizer.step import StepResult
from pretrain.parallel.world import World
from pretrain.run.logs import RunLog
from pretrain.run.pending_metrics import RunStep
from pretrain.run.speed import Clock

# Logged lines from which the time left is told.
_RECENT = 10


class StepLog:
    """Figures of the steps from `first_step` on. All ranks call every method alike; the first one writes."""

    def __init__(self, run: RunFolder, config: PretrainConfig, world: World, first_step: int, total_steps: int) -> None:
        self.config = config
        self.world = world
        self.total_steps = total_steps
        self.clock = Clock(first_step, config, world.size)
        self._log = RunLog(run, config.log, first_step, asdict(config)) if world.is_first else None
        self._step_seconds: list[float] = []  # of every logged line

    def is_due(self, step: int) -> bool:
        return step % self.config.log.every_steps == 0

    def write(self, step: RunStep, result: StepResult) -> None:
        """What a step did. One that has a line only because it was skipped tells no speed: it may be long past."""
        metrics = {**result.losses, "gradient_norm": result.gradient_norms, "schedule": step.values.metrics()}
        metrics |= {"skipped": True} if result.skipped else {}
        metrics |= step.further | (self._keys(step.keys) if self.config.log.sample_keys else {})
        if self._log is None:
            return
        if not step.is_logged:
            self._log.write(step.number, metrics)
            return
        speed = self.clock.speed_at(step.number + 1, step.wait_seconds)
        self._log.write(step.number, {**metrics, "speed": speed})
        self._say(step.number, result.losses[TOTAL], step.values.lr, speed)

    def write_evaluation(self, step: int, scores: StepMetrics) -> None:
        """The evaluation after the last step, which has no step's line to stand in."""
        if self._log is not None:
            self._log.write(step, scores)

    def flush_to_disk(self) -> None:
        """Before a checkpoint is written: whoever resumes from it finds all lines before it."""
        if self._log is not None:
            self._log.metrics.flush_to_disk()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def _keys(self, parts: list[list[str]]) -> StepMetrics:
        by_rank = self.world.gather(parts)
        return {"keys": [key for part in range(len(parts)) for rank in by_rank for key in rank[part]]}

    def _say(self, step: int, loss: float, lr: float, speed: dict[str, float]) -> None:
        # The first steps wait for workers and compilation: they say nothing of those to come.
        self._step_seconds.append(speed["step_seconds"])
        usual = self._step_seconds[1:][-_RECENT:]
        left = f"  {duration((self.total_steps - step - 1) * median(usual))} left" if usual else ""
        mfu = f"MFU {100 * speed['mfu']:.0f}%  " if "mfu" in speed else ""
        say(
            f"step {step:>6,}/{self.total_steps:,}  loss {loss:.4f}  lr {lr:.2e}  "
            f"{speed['images_per_second']:.1f} images/s  data wait {100 * speed['data_wait_share']:.0f}%  "
            f"{mfu}memory {speed['memory_gb']:.2f} GB{left}"
        )
