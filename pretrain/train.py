"""A run from its first step to its last, across any number of stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from backbone import Preprocessing
from pretrain.config import PretrainConfig
from pretrain.data.loader import LoadedBatch, Loader, RankBatches, Requests, shards_of
from pretrain.judging.health import collapse_figures
from pretrain.judging.monitor import Monitor, Verdict
from pretrain.judging.regression_guard import Trouble
from pretrain.judging.rollback import RollBacks
from pretrain.objective.drop_path import subsets_of_step
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.optimizer.schedules import StepValues, resolve_schedule, steps_of
from pretrain.optimizer.step import Stepper, StepResult
from pretrain.optimizer.warm_start import WarmSchedule
from pretrain.parallel.build import prepare_optimizer, training_state
from pretrain.parallel.world import World, joined_world
from pretrain.run.checkpoints import CheckpointStore
from pretrain.run.logs import RunLog
from pretrain.run.setup import CONFIG_NAME, memory_of, order_of, refuse_changed_config, run_lock, starting_objective
from pretrain.run.signals import EXIT_REQUEUE, StopRequest, stop_signals
from pretrain.run.speed import Clock
from records.documents import as_document
from records.run import RunFolder, RunInfo
from runtime.config import save_config
from runtime.console import duration, log_to, say, table, warn
from runtime.errors import UserError
from runtime.files import write_json


def pretrain(config: PretrainConfig) -> int:
    """Train, or go on training, and return the exit code: 0, or EXIT_REQUEUE when the run was asked to stop."""
    with ExitStack() as stack:
        world = stack.enter_context(joined_world(config.run.device, config.run.timeout_seconds))
        request = stack.enter_context(stop_signals())
        run = Path(config.run.dir)
        if world.is_first:
            stack.enter_context(run_lock(run))
            stack.enter_context(log_to(run / "log.txt"))
        world.first_says(None)  # the others wait until the folder is ours
        return Trainer(config, world, request).train()


class Trainer:
    """Everything that a run consists of on one rank."""

    def __init__(self, config: PretrainConfig, world: World, request: StopRequest) -> None:
        self.config, self.world, self.request = config, world, request
        self.run = Path(config.run.dir)
        self.store = CheckpointStore(self.run, world, config.checkpoint)
        # What the first rank sees: on a network file system others may see a folder as it was a minute ago.
        has_checkpoints = bool(world.first_says(self.store.steps()))
        refuse_changed_config(config, self.run, has_checkpoints)
        self.shards = shards_of(config.data)
        self.vit = config.model.vit()
        self.order = order_of(config, self.shards)
        self.recipe = resolve_schedule(config.schedule, config.batch.images, self.order.epoch_images)
        self.warm = (
            WarmSchedule(config.warm_start, self.recipe, config.batch.images, self.order.epoch_images)
            if config.starts_warm
            else None
        )
        self.end = self._end()
        self.objective = starting_objective(config, world, is_new=not has_checkpoints)
        self.optimizer = build_optimizer(self.objective.student, config.optimizer)
        prepare_optimizer(self.optimizer)
        self.stepper = Stepper(self.objective, self.optimizer, config.optimizer.clip_norm, world)
        self.skipped = self.skipped_in_a_row = 0
        self.preprocessing = Preprocessing(
            resize_px=round(config.augment.global_px * 256 / 224), crop_px=config.augment.global_px
        )
        self.roll_backs = RollBacks(self.run, world, self.store, config.monitor.evaluation.selection)
        self.step = self._saved_step = self._resume()
        self.monitor = self._monitor()
        self._stop_requested = False
        if world.is_first:
            save_config(config, self.run / CONFIG_NAME)
            RunFolder(self.run).write_info(RunInfo(total_steps=self.end, order_version=1))

    def train(self) -> int:
        """Run the steps that are left; after a roll-back, those since the checkpoint that it went to."""
        self._introduce()
        verdict = self.monitor.verdict(self.step)
        ended = (self.step >= self.end or verdict.stop) and verdict.trouble is None
        if ended or self._has_given_up():
            say(f"nothing to do: the run has ended at step {self.step:,} of {self.end:,}.")
            return 0
        while True:
            verdict = self._go_on()
            if verdict.trouble is None:
                return self._farewell(verdict)
            self._go_back(verdict.trouble)
            if self._has_given_up():
                return 0

    def _go_on(self) -> Verdict:
        """Train from the present step to the end, a stop, or trouble."""
        with self._log() as log, self._loader(range(self.step, self.end)) as loader:
            self.clock = Clock(self.step, self.config, self.world.size)
            verdict = self._look(log, resumed=self.step > 0)
            while self.step < self.end and verdict.goes_on and not self._stop_requested:
                trouble = self._one_step(loader, log)
                if trouble is not None:
                    verdict = Verdict(trouble=trouble)
                elif self.monitor.due(self.step, self.end) and not self._stop_requested:
                    verdict = self._look(log)
                elif self.step % self.config.checkpoint.every_steps == 0:
                    self._save(log)
                    verdict = self._judge()
            if verdict.trouble is None:
                self._save_if_new(log)
            self.store.wait(must_succeed=verdict.trouble is None)
            if verdict.trouble is None:
                self._log_last_figures(log)
        return verdict

    def _go_back(self, trouble: Trouble) -> None:
        """To the last good checkpoint with a lower learning rate, or for good when that was tried often enough."""
        guard, there = self.config.guard, self.world.first_says(self.store.steps())
        good = [step for step in trouble.good_steps if step in there]
        if not good:
            raise UserError(f"{trouble.why}; no checkpoint from before that is left in {self.store.folder}.")
        goes_on = len(self.roll_backs.entries) < guard.roll_backs
        factor = self.roll_backs.lr_factor(good[-1]) * (guard.lr_factor if goes_on else 1.0)
        self.roll_backs.go_back(trouble.why, self.step, good[-1], factor)
        left_at, self.step = self.step, self._resume()
        self._saved_step = self.step
        what = f"the learning rate is now {factor:g} of the recipe's" if goes_on else "the run ends here"
        if self.world.is_first:
            warn(f"back from step {left_at:,} to step {self.step:,}: {trouble.why}; {what}.")
        if not goes_on:
            say(
                f"stopped: training did harm {len(self.roll_backs.entries)} times, see {self.roll_backs.path}; "
                f"the last good checkpoint is {self.store.folder / f'step_{self.step:07d}'}. Try a lower "
                "schedule.base_lr or a longer warm_start.ease in a new run."
            )

    def _has_given_up(self) -> bool:
        return len(self.roll_backs.entries) > self.config.guard.roll_backs

    def _farewell(self, verdict: Verdict) -> int:
        if verdict.stop:
            say(f"stopped at step {self.step:,}: {verdict.why}.")
        elif self.step < self.end:
            say(f"stopped at step {self.step:,} as asked, saved; the same command goes on from here.")
            return EXIT_REQUEUE
        say(f"done: {self.step:,} steps, {self.store.folder / f'step_{self.step:07d}'}.")
        return 0

    def _judge(self) -> Verdict:
        verdict = self.monitor.verdict(self.step)
        self.store.last_good_step = verdict.last_good_step
        return verdict

    def _look(self, log: RunLog | None, resumed: bool = False) -> Verdict:
        """Evaluate the teacher where that is due, save its checkpoint beside it, and say what follows."""
        due = self.monitor.due(self.step, self.end)
        if due and not (resumed and self.monitor.figures(self.step) is not None):
            if not resumed:
                self._save(log)
            teacher = self.objective.teacher["backbone"]
            with self.clock.stopped():
                document = self.monitor.evaluate(self.step, teacher, self.preprocessing, self.shards.certificate)
                self.store.wait()  # the checkpoint was written meanwhile
                self.monitor.record(document)
        return self._judge()

    def _one_step(self, loader: Loader, log: RunLog | None) -> Trouble | None:
        parts = [loader.next() for _ in range(self.config.batch.accumulation_steps)]
        values = self._values()
        if self.vit.drop_path and values.ease.drop_path != 1.0:
            self._redraw_drop_path(parts, values.ease.drop_path)
        unreadable = [line for part in parts for line in part.unreadable]
        for line in unreadable:
            warn(f"step {self.step}: unreadable sample replaced: {line}")
        flags = [float(self.request.signal_name is not None), float(len(unreadable)), loader.wait_seconds]
        result = self.stepper.run(parts, values, flags)
        stop, bad_samples, wait_seconds = result.flags
        self._stop_requested = stop > 0
        trouble = self._note_health(result, parts)
        if self.warm is not None and not result.skipped:
            self.warm.heads.note(self.step, result.losses["total"])
        every = self.config.health.collapse_every_steps
        collapse = {}
        if every and self.step % every == 0:
            batch = parts[0].batch.to(self.world.device)
            collapse = collapse_figures(self.objective, batch, values.teacher_temperature)
        knn = self.monitor.figures(self.step) if self.monitor.due(self.step, self.end) else None
        if self.step % self.config.log.every_steps == 0 or collapse or result.skipped or knn:
            keys = self._keys(parts) if self.config.log.sample_keys else {}
            figures = {
                **result.losses,
                "gradient_norm": result.gradient_norms,
                "schedule": values.figures(),
                **({"skipped": True} if result.skipped else {}),
                **({"unreadable_samples": int(bad_samples)} if bad_samples else {}),
                **({"collapse": collapse} if collapse else {}),
                **({"knn": knn} if knn else {}),
                **keys,
            }
            if log is not None:
                speed = self.clock.lap(self.step + 1, wait_seconds / self.world.size)
                log.write(self.step, {**figures, "speed": speed})
                self._say_step(result, values.lr, speed)
        self.step += 1
        return trouble

    def _values(self) -> StepValues:
        values = (self.warm or self.recipe).at(self.step)
        factor = self.roll_backs.lr_factor(self.step)
        return values if factor == 1.0 else values.slower(factor)

    def _redraw_drop_path(self, parts: list[LoadedBatch], factor: float) -> None:
        """The loader knows the model's rate only: when it prepares a batch, the end of the heads' phase may be open."""
        config, world = self.config, self.world
        rate, groups = self.vit.drop_path * factor, config.batch.groups_per_rank(world.size)
        for number, part in enumerate(parts):
            first = (number * world.size + world.rank) * groups
            part.batch.subsets = subsets_of_step(
                self.vit,
                rate,
                config.batch.group_images,
                config.augment.local_crops,
                config.run.seed,
                self.step,
                range(first, first + groups),
            )

    def _keys(self, parts: list[LoadedBatch]) -> dict[str, Any]:
        by_rank = self.world.gather([part.keys for part in parts])
        return {"keys": [key for part in range(len(parts)) for rank in by_rank for key in rank[part]]}

    def _note_health(self, result: StepResult, parts: list[LoadedBatch]) -> Trouble | None:
        if not result.skipped:
            self.skipped_in_a_row = 0
            return None
        self.skipped += 1
        self.skipped_in_a_row += 1
        keys = [key for part in parts for key in part.keys]
        reports = self.world.gather({"rank": self.world.rank, "samples": keys} if result.bad_here else None)
        blamed = [report for report in reports if report is not None]
        ranks = ", ".join(str(report["rank"]) for report in blamed) or "none (only the gradient)"
        if self.world.is_first:
            warn(f"step {self.step} is skipped on all ranks: non-finite loss or gradient; loss of ranks: {ranks}.")
        if self.skipped_in_a_row < self.config.health.max_skipped_steps:
            return None
        self.store.wait()  # a save under way may end in peace
        path = self.run / "non_finite.json"
        if self.world.is_first:
            write_json(path, {"step": self.step, "skipped_in_a_row": self.skipped_in_a_row, "ranks": blamed})
        why = f"{self.skipped_in_a_row} steps in a row were non-finite, the last one is {self.step}"
        steps: list[int] = self.world.first_says(self.store.steps())
        before = tuple(sorted(step for step in steps if step <= self.step + 1 - self.skipped_in_a_row))
        if self.config.guard.non_finite and before:
            return Trouble(why, before)
        raise UserError(
            f"{why}; ranks and samples are in {path}; go on from an earlier checkpoint with a lower schedule.base_lr, "
            "or set guard.non_finite=true."
        )

    def _save(self, log: RunLog | None) -> None:
        if log is not None:
            log.metrics.flush_to_disk()
        description = {
            "vit": self.vit.to_dict(),
            "preprocessing": self.preprocessing.to_dict(),
            "certificate": None if self.shards.certificate is None else as_document(self.shards.certificate),
            "images_seen": self.step * self.config.batch.images,
            "world_size": self.world.size,
            "shards_sha256": self.shards.sha256,
            "skipped_steps": self.skipped,
            "skipped_in_a_row": self.skipped_in_a_row,
            "warm_start": None if self.warm is None else self.warm.heads.state(),
        }
        self.store.save(self.step, training_state(self.objective, self.optimizer), description)
        self._saved_step = self.step

    def _save_if_new(self, log: RunLog | None) -> None:
        if self._saved_step != self.step:
            self._save(log)

    def _log_last_figures(self, log: RunLog | None) -> None:
        """The evaluation after the last step has no step's line to stand in."""
        if self.monitor.due(self.step, self.end):
            knn = self.monitor.figures(self.step)
            if log is not None and knn is not None:
                log.write(self.step, {"knn": knn})

    def _resume(self) -> int:
        """Go on from the newest usable checkpoint; the step to do next."""
        description = self.store.load_latest(training_state(self.objective, self.optimizer), self.vit.to_dict())
        if description is None:
            return 0
        if description["shards_sha256"] != self.shards.sha256:
            raise UserError(
                f"data.shards={self.config.data.shards} does not hold the samples that the run {self.run} began with; "
                "give it the same shards, or choose another run.dir."
            )
        self.skipped, self.skipped_in_a_row = description["skipped_steps"], description["skipped_in_a_row"]
        if self.warm is not None:
            self.warm.heads.load(description["warm_start"])
        return int(description["step"])

    def _monitor(self) -> Monitor:
        config, margin, patience_from = self.config, None, 0
        if config.guard.is_on(config.starts_warm):
            margin = config.guard.margin
        if self.warm is not None:
            patience_from = self.warm.longest_steps
        return Monitor(config.monitor, self.run, self.world, margin, patience_from)

    def _end(self) -> int:
        """The step after which the run is over."""
        stop_at, images = self.config.run.stop_at, self.config.batch.images
        if stop_at is None:
            return self.recipe.total_steps
        return min(self.recipe.total_steps, steps_of("run.stop_at", stop_at, images, self.order.epoch_images))

    @contextmanager
    def _log(self) -> Iterator[RunLog | None]:
        if not self.world.is_first:
            yield None
            return
        log = RunLog(self.run, self.config.log, self.step, asdict(self.config))
        try:
            yield log
        finally:
            log.close()

    @contextmanager
    def _loader(self, steps: range) -> Iterator[Loader]:
        config = self.config
        requests = Requests(self.order, config.batch, self.world.rank, self.world.size, steps)
        batches = RankBatches(
            self.shards, self.order, config.augment, config.masks, self.vit, config.batch.group_images, config.run.seed
        )
        loader = Loader(batches, requests, config.data, pinned=self.world.device.type == "cuda")
        try:
            yield loader
        finally:
            loader.close()

    def _introduce(self) -> None:
        """The resolved schedule and the world, before the first step."""
        config, world, schedule = self.config, self.world, self.recipe
        epochs = self.end * config.batch.images / self.order.epoch_images
        say(
            f"{world.size} ranks on {world.device.type}, sharding {config.sharding.mode}; "
            f"{len(self.shards):,} samples of {len(self.shards.corpora)} corpora in {len(self.shards.shards)} shards"
        )
        say(
            f"{self.end:,} steps of {config.batch.images:,} images = {epochs:.2f} data epochs; learning rate up to "
            f"{max(schedule.at(s).lr for s in (schedule.warmup_steps, self.end) if s <= self.end):.3g}, "
            f"at the end {schedule.at(self.end).lr:.3g}"
        )
        table("memory per rank, estimated", ["part", "size"], memory_of(config, world.size, world.local_size).rows())
        head, *rows = schedule.table()
        table("schedule", list(head), [list(row) for row in rows])
        if self.warm is not None:
            say(self.warm.describe())
            if config.monitor.mode == "none" and world.is_first:
                warn("monitor.mode is none: nobody will see whether training does harm to the starting weights.")
        if self.step:
            say(f"going on from step {self.step:,}")

    def _say_step(self, result: StepResult, lr: float, speed: dict[str, float]) -> None:
        left = (self.end - self.step - 1) * speed["step_seconds"]
        mfu = f"MFU {100 * speed['mfu']:.0f}%  " if "mfu" in speed else ""
        say(
            f"step {self.step:>6,}/{self.end:,}  loss {result.losses['total']:.4f}  lr {lr:.2e}  "
            f"{speed['images_per_second']:.1f} images/s  data wait {100 * speed['data_wait_share']:.0f}%  "
            f"{mfu}memory {speed['memory_gb']:.2f} GB  {duration(left)} left"
        )
