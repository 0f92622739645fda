"""A run from its first step to its last, across any number of stops."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from panendofm.backbone import Preprocessing
from panendofm.records.metrics import TOTAL
from panendofm.records.run import EXIT_REQUEUE, CheckpointInfo, RunFolder
from panendofm.runtime.console import log_to, say, warn
from panendofm.runtime.errors import UserError
from pretrain.build import starting_objective
from pretrain.config import PretrainConfig
from pretrain.data.loader import LoadedBatch, Loader, RankBatches, order_of, shards_of
from pretrain.data.order.batch_sampler import BatchSampler
from pretrain.data.order.video_pairs import VideoPairs
from pretrain.monitoring.health import SkippedSteps, collapse_metrics
from pretrain.monitoring.monitor import Monitor, Verdict
from pretrain.monitoring.regression_guard import RollbackCause
from pretrain.monitoring.rollback import Rollbacks
from pretrain.monitoring.students import further_students
from pretrain.objective.drop_path import DropPath
from pretrain.optimizer.parameter_groups import build_optimizer
from pretrain.optimizer.step import Stepper
from pretrain.optimizer.warm_start import WarmSchedule
from pretrain.parallel.world import World, joined_world
from pretrain.run.announce import announce
from pretrain.run.checkpoints import CheckpointStore, training_state
from pretrain.run.pending_metrics import PendingMetrics, RunStep
from pretrain.run.resume import (
    refuse_changes,
    refuse_other_shards,
    refuse_other_teacher,
    refuse_other_weights,
    run_lock,
    write_record,
)
from pretrain.run.retention import Retention
from pretrain.run.step_log import StepLog
from pretrain.schedules import StepValues, resolve_schedule
from pretrain.signals import StopRequest, stop_signals


def pretrain(config: PretrainConfig) -> int:
    """Train, or resume training, and return the exit code: 0, or EXIT_REQUEUE when the run was asked to stop."""
    with ExitStack() as stack:
        world = stack.enter_context(joined_world(config.run.device, config.run.timeout_seconds))
        request = stack.enter_context(stop_signals())
        run = RunFolder(Path(config.run.dir))
        if world.is_first:
            stack.enter_context(run_lock(run))
            stack.enter_context(log_to(run.log))
        world.broadcast(None)  # the others wait until the folder is ours
        return Trainer(config, run, world, request).train()


class Trainer:
    """Everything that a run consists of on one rank."""

    def __init__(self, config: PretrainConfig, run: RunFolder, world: World, request: StopRequest) -> None:
        self.config = config
        self.run = run
        self.world = world
        self.request = request
        # What the first rank sees: on a network file system others may see a folder as it was a minute ago.
        is_new = not world.broadcast(run.steps())
        if not is_new:
            refuse_changes(config, run)
        self._prepare_data_and_schedule()
        self._prepare_networks(is_new)
        self._prepare_monitoring()
        self.step = self._resume()
        self._saved_step = self.step
        self._stop_requested = False
        self.pending_metrics = PendingMetrics()
        if world.is_first:
            corpora = self.shards.files.read_corpora()
            write_record(config, run, self.total_steps, self.monitor.patience_from_step, corpora)
            for student in self.students:
                write_record(student.config, student.run, self.total_steps, 0, corpora)

    def _prepare_data_and_schedule(self) -> None:
        config = self.config
        images = config.batch.images
        self.shards = shards_of(config.data)
        self.order = order_of(config.data, config.batch, config.run.seed, self.shards)
        corpus_images = self.order.epoch_images
        self.recipe = resolve_schedule(config.schedule, images, corpus_images)
        self.warm_start = (
            WarmSchedule(config.warm_start, self.recipe, images, corpus_images) if config.starts_warm else None
        )
        self.total_steps = config.total_steps(corpus_images)

    def _prepare_networks(self, is_new: bool) -> None:
        config = self.config
        self.vit = config.model.vit()
        self.preprocessing = Preprocessing().at_crop(config.augment.global_px)
        self.objective = starting_objective(config, self.world, is_new, len(self.shards))
        self.optimizer = build_optimizer(self.objective.student, config.optimizer)
        drop_path = DropPath(self.vit, config.batch.microgroup_images, config.augment.local_crops, config.run.seed)
        self.stepper = Stepper(self.objective, self.optimizer, config.optimizer.clip_norm, drop_path, self.world)

    def _prepare_monitoring(self) -> None:
        config = self.config
        guard = config.regression_guard
        selection = config.monitor.sets.selection
        mode = config.monitor.mode
        self.retention = Retention(
            self.run, config.checkpoint, None if mode == "none" else selection, watched=mode == "watch"
        )
        self.students = further_students(config, self.run, self.world)
        extracts = [student.extract for student in self.students]
        self.store = CheckpointStore(self.run, self.world, config.checkpoint, self.retention, extracts)
        self.skipped_steps = SkippedSteps(config.health.max_skipped_steps, guard.non_finite, self.store, self.world)
        self.rollbacks = Rollbacks(self.run, self.world, selection)
        margin = guard.margin if guard.is_on(config.starts_warm) else None
        patience_from = 0 if self.warm_start is None else self.warm_start.longest_steps
        from_weights = config.init.weights is not None
        self.monitor = Monitor(config.monitor, self.run, self.world, margin, patience_from, from_weights)

    def train(self) -> int:
        """Run the steps that are left; after a rollback, those since the checkpoint that it went to."""
        announce(
            self.config, self.world, self.shards, self.order, self.recipe, self.warm_start, self.step, self.total_steps
        )
        for monitor in self._monitors:
            monitor.update_best()
        verdict = self.monitor.verdict(self.step)
        is_over = (self.step >= self.total_steps or verdict.stop) and verdict.rollback is None
        # Killed after the last checkpoint was written, it still has to say what that is worth.
        if (is_over and self._is_evaluated()) or self._is_given_up():
            say(f"nothing to do: the run has ended at step {self.step:,} of {self.total_steps:,}.")
            return 0
        while True:
            verdict = self.train_until_stopped()
            if verdict.rollback is None:
                return self.finish(verdict)
            self.roll_back(verdict.rollback)
            if self._is_given_up():
                return 0

    def train_until_stopped(self) -> Verdict:
        """Train from the present step to the end, to a stop, or until the run must be rolled back."""
        with (
            closing(StepLog(self.run, self.config, self.world, self.step, self.total_steps)) as log,
            closing(self._loader(range(self.step, self.total_steps))) as loader,
        ):
            verdict = self.evaluate(log, resumed=self._is_loaded)
            while self.step < self.total_steps and verdict.continues and not self._stop_requested:
                cause = self.train_step(loader, log)
                if cause is not None:
                    verdict = Verdict(rollback=cause)
                elif self.monitor.due(self.step, self.total_steps) and not self._stop_requested:
                    verdict = self.evaluate(log)
                elif self.step % self.config.checkpoint.every_steps == 0:
                    self.save(log)
                    verdict = self._verdict()
            if verdict.rollback is None and self._saved_step != self.step:
                self.save(log)
            self.store.wait(must_succeed=verdict.rollback is None)
            if verdict.rollback is None and self.monitor.due(self.step, self.total_steps):
                scores = self.monitor.metrics(self.step)
                if scores is not None:
                    log.write_evaluation(self.step, scores)
        return verdict

    def train_step(self, loader: Loader, log: StepLog) -> RollbackCause | None:
        """One step; why the run must be rolled back, if it must."""
        parts = [loader.next() for _ in range(self.config.batch.accumulation_steps)]
        unreadable = [line for part in parts for line in part.unreadable]
        for line in unreadable:
            warn(f"step {self.step}: unreadable sample replaced: {line}")
        values = self._values()
        result = self.stepper.run(parts, values)
        to_sum = [float(self.request.signal_name is not None), float(len(unreadable)), loader.wait_seconds]
        stop, replaced_samples, wait_seconds = self.world.sum(to_sum)
        self._stop_requested = stop > 0
        further = self._measure(parts, values)
        is_logged = log.is_due(self.step) or bool(further)
        if replaced_samples:
            further["unreadable_samples"] = int(replaced_samples)
        keys = [part.keys for part in parts]
        step = RunStep(self.step, values, keys, wait_seconds / self.world.size, further, is_logged)
        self.pending_metrics.add(step, result)
        self.step += 1
        return self.read_steps(log) if is_logged or self._must_read() else None

    def _must_read(self) -> bool:
        """Whether anything that follows depends on what the unread steps did."""
        step = self.step
        heads = None
        if self.warm_start is not None:
            heads = self.warm_start.heads_phase.pending_at_most(step - len(self.pending_metrics))
        return (
            self._stop_requested
            or step >= self.total_steps
            or step % self.config.checkpoint.every_steps == 0
            or self.monitor.due(step, self.total_steps)
            or len(self.pending_metrics) >= self.skipped_steps.pending_at_most
            or (heads is not None and len(self.pending_metrics) >= heads)
        )

    def read_steps(self, log: StepLog) -> RollbackCause | None:
        """Wait for the device, and take in what the steps since the last time did; the one place where a run does."""
        cause = None
        for step, result in self.pending_metrics.read():
            cause = self.skipped_steps.count(step.number, result, [key for part in step.keys for key in part])
            if self.warm_start is not None and not result.skipped:
                self.warm_start.heads_phase.record(step.number, result.losses[TOTAL])
            if step.is_logged or result.skipped:
                log.write(step, result)
        return cause

    def evaluate(self, log: StepLog, resumed: bool = False) -> Verdict:
        """Evaluate the teacher where that is due, save its checkpoint beside it, and say what follows."""
        due = self.monitor.due(self.step, self.total_steps)
        if due and not (resumed and self.monitor.metrics(self.step) is not None):
            if not resumed:
                self.save(log)
            with log.clock.paused():
                certificate = self.shards.certificate
                found = [
                    monitor.evaluate(self.step, self.objective, self.preprocessing, certificate)
                    for monitor in self._monitors
                ]
                self.store.wait()  # the checkpoint was written meanwhile
                for monitor, documents in zip(self._monitors, found, strict=True):
                    monitor.record(documents)
        elif self.step == 0 and not resumed and self.config.monitor.mode == "watch":
            self.save(log)  # for the watcher: all that follows is compared with the weights that training began with
        return self._verdict()

    def save(self, log: StepLog) -> None:
        log.flush_to_disk()
        info = CheckpointInfo(
            step=self.step,
            vit=self.vit.to_dict(),
            preprocessing=self.preprocessing.to_dict(),
            certificate=self.shards.certificate,
            images_seen=self.step * self.config.batch.images,
            world_size=self.world.size,
            shards_sha256=self.shards.sha256,
            weights_sha256=self.order.weights_sha256,
            teacher_sha256=self.objective.whole_networks_sha256,
            skipped_steps=self.skipped_steps.total,
            skipped_in_a_row=self.skipped_steps.in_a_row,
            warm_start=None if self.warm_start is None else self.warm_start.heads_phase.state(),
        )
        self.store.save(training_state(self.objective, self.optimizer), info)
        self._saved_step = self.step

    def roll_back(self, cause: RollbackCause) -> None:
        """To the last good checkpoint with a lower learning rate, or for good when that was tried often enough."""
        guard = self.config.regression_guard
        saved = self.world.broadcast(self.run.steps())
        good = [step for step in cause.good_steps if step in saved]
        if not good:
            raise UserError(f"{cause.why}; no checkpoint from before that is left in {self.run.checkpoints}.")
        tries_again = len(self.rollbacks.entries) < guard.rollbacks
        factor = self.rollbacks.lr_factor(good[-1]) * (guard.lr_factor if tries_again else 1.0)
        for rollbacks in (*(student.rollbacks for student in self.students), self.rollbacks):
            rollbacks.roll_back(cause.why, self.step, good[-1], factor)
        from_step = self.step
        self.step = self._resume()
        self._saved_step = self.step
        if self.world.is_first:
            what = f"the learning rate is now {factor:g} of the recipe's" if tries_again else "the run ends here"
            warn(f"rolled back from step {from_step:,} to step {self.step:,}: {cause.why}; {what}.")
        if not tries_again:
            say(
                f"stopped: training did harm {len(self.rollbacks.entries)} times, see {self.run.rollbacks}; the last "
                f"good checkpoint is {self.run.checkpoint(self.step)}. Try a lower schedule.base_lr or a longer "
                "warm_start.ramp in a new run."
            )

    def finish(self, verdict: Verdict) -> int:
        """Say how the run ended; its exit code."""
        is_evaluated = self._is_evaluated()
        if verdict.stop:
            say(f"stopped at step {self.step:,}: {verdict.why}.")
        elif self.step < self.total_steps or not is_evaluated:  # asked in the last step, it has its evaluation to make
            say(f"stopped at step {self.step:,} as asked, saved; the same command resumes it.")
            return EXIT_REQUEUE
        say(f"done: {self.step:,} steps, {self.run.checkpoint(self.step)}.")
        return 0

    @property
    def _monitors(self) -> list[Monitor]:
        """The run's own last: where its evaluation is, those of further students are too."""
        return [*(student.monitor for student in self.students), self.monitor]

    def _is_evaluated(self) -> bool:
        """Whether the evaluation that is due at this step has been made."""
        return not self.monitor.due(self.step, self.total_steps) or self.monitor.metrics(self.step) is not None

    def _is_given_up(self) -> bool:
        return len(self.rollbacks.entries) > self.config.regression_guard.rollbacks

    def _verdict(self) -> Verdict:
        verdict = self.monitor.verdict(self.step)
        self.retention.last_good_step = verdict.last_good_step
        return verdict

    def _values(self) -> StepValues:
        values = (self.warm_start or self.recipe).at(self.step)
        factor = self.rollbacks.lr_factor(self.step)
        return values if factor == 1.0 else values.with_lr_factor(factor)

    def _measure(self, parts: list[LoadedBatch], values: StepValues) -> dict[str, Any]:
        """What is logged beside the step itself: metrics of a collapse, and the scores of the model before the step."""
        every = self.config.health.collapse_every_steps
        further: dict[str, Any] = {}
        if every and self.step % every == 0:
            batch = parts[0].batch.to(self.world.device)
            further["collapse"] = collapse_metrics(self.objective, batch, values.teacher_temperature)
        if self.monitor.due(self.step, self.total_steps):
            further |= self.monitor.metrics(self.step) or {}
        return further

    def _loader(self, steps: range) -> Loader:
        config, world = self.config, self.world
        sampler = BatchSampler(self.order, config.batch, world.rank, world.size, steps)
        batches = RankBatches(
            self.shards,
            self.order,
            config.augment,
            config.masks,
            self.vit.patch_px,
            config.batch.microgroup_images,
            config.run.seed,
            config.objective.sampled_from(len(self.shards)),
            VideoPairs(self.shards.runs, config.run.seed) if config.data.pairs == "video" else None,
        )
        return Loader(batches, sampler, config.data, pinned=world.device.type == "cuda")

    def _resume(self) -> int:
        """Load the newest usable checkpoint; the step to do next."""
        info = self.store.load_latest(training_state(self.objective, self.optimizer), self.vit.to_dict())
        self._is_loaded = info is not None  # also of step 0, which a watcher may be reading: it is not written again
        if info is None:
            return 0
        refuse_other_shards(self.config, self.run, info, self.shards.sha256)
        refuse_other_weights(self.config, self.run, info, self.order.weights_sha256)
        refuse_other_teacher(self.config, self.run, info, self.objective.whole_networks_sha256)
        self.skipped_steps.total = info.skipped_steps
        self.skipped_steps.in_a_row = info.skipped_in_a_row
        if self.warm_start is not None and info.warm_start is not None:
            self.warm_start.heads_phase.load(info.warm_start)
        return info.step
