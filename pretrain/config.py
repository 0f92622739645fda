"""The configuration of a run: the sections of its parts, and what may change when it is resumed."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

from eval_knn import EvalConfig, EvaluationSets, SeveralSetsConfig
from panendofm.backbone import Execution, ViTConfig, vit_config
from panendofm.runtime.config import option, required
from panendofm.runtime.errors import UserError
from pretrain.data.augment import AugmentConfig
from pretrain.data.config import BatchConfig, DataConfig, MaskConfig
from pretrain.objective.config import DistillConfig, ObjectiveConfig
from pretrain.objective.trainable import parse_trainable
from pretrain.optimizer.config import OptimizerConfig, WarmStartConfig
from pretrain.parallel.config import ShardingConfig
from pretrain.schedules import ScheduleConfig, parse_duration, steps_of


@dataclass
class RunConfig:
    """The run as a whole."""

    dir: str = required("Folder of the run. One that holds a run already is continued.")
    seed: int = option("Everything random follows from it.", 0)
    device: Literal["auto", "cpu", "cuda"] = option("Where to train; auto: a GPU when there is one.", "auto")
    stop_at: str | None = option("End before the schedule does, such as '2 data epochs'; null: with it.", None)
    timeout_seconds: float = option("A rank that does not answer for so long ends the run.", 600.0, above=0)


@dataclass
class InitConfig:
    """What a new run starts from. A run that is continued has its own weights already."""

    weights: str | None = option("Backbone weights, anything that load_backbone reads; null: random.", None)
    new_registers: bool = option("Give a backbone without register tokens new ones.", False)


@dataclass
class ModelConfig:
    """The backbone: a name, and what differs from it."""

    name: str = option("Size, such as vit_large_patch14 or vit_small_patch14_reg4.", "vit_large_patch14")
    trainable: str = option(
        "What trains of the backbone: all; last:K, the last K blocks and the final norm; lora:R, adapters of rank R in "
        "every block, merged into plain weights wherever the backbone is used. The heads train in any case.",
        "all",
    )
    drop_path: float = option("Share of the samples that skip a residual branch.", 0.4, low=0, below=1)
    image_px: int | None = option("Side of the image that positions are stored for; null: the name's.", None, low=1)
    width: int | None = option("Length of a token; null: the name's.", None, low=1)
    depth: int | None = option("Number of blocks; null: the name's.", None, low=1)
    attention_heads: int | None = option("Attention heads; null: the name's.", None, low=1, was="heads")
    layerscale_init: float | None = option("First value of the LayerScale factors; null: the name's.", None, low=0)

    def vit(self) -> ViTConfig:
        changes = {item.name: getattr(self, item.name) for item in fields(self)}
        del changes["name"], changes["trainable"]
        changes["heads"] = changes.pop("attention_heads")
        return vit_config(self.name, **{name: value for name, value in changes.items() if value is not None})


@dataclass
class LogConfig:
    """What is written down."""

    every_steps: int = option("Steps between two lines on the console and in the metrics file.", 10, low=1)
    sample_keys: bool = option("Write the keys of every logged batch's samples into the metrics file.", False)
    tensorboard: bool = option("Write TensorBoard files to the run's folder.", False)
    wandb: Literal["none", "offline", "online"] = option(
        "Weights & Biases; offline writes to the run's folder.", "none"
    )
    wandb_project: str = option("W&B project.", "panendofm")
    peak_tflops_per_rank: float | None = option("Peak of one rank's device, for the MFU; null: no MFU.", None, above=0)


@dataclass
class CheckpointConfig:
    """When to save, and what to keep."""

    every_steps: int = option("Steps between two checkpoints.", 1000, low=1)
    keep_last: int = option("Newest checkpoints that are kept.", 2, low=1)
    keep_every_steps: int | None = option("Checkpoints of every so many steps are kept for good.", None, low=1)
    keep_unscored: int = option(
        "monitor.mode=watch: older checkpoints that may wait for their score; beyond that the oldest goes unscored.",
        10,
        low=0,
    )
    asynchronous: bool = option("Write while training goes on; false waits for the disk.", True)


@dataclass
class HealthConfig:
    """When to worry."""

    max_skipped_steps: int = option(
        "Non-finite steps in a row after which the run stops with a report, or rolls back: "
        "regression_guard.non_finite.",
        10,
        low=1,
    )
    collapse_every_steps: int = option(
        "Steps between two measurements of feature spread and entropy; 0: none.", 100, low=0
    )


@dataclass
class RegressionGuardConfig:
    """What happens when training does harm: back to the last good checkpoint with a lower learning rate, or a stop."""

    when: Literal["auto", "always", "never"] = option(
        "Whether kNN scores below that of step 0 count; auto: with the warm start. Needs the monitor.", "auto"
    )
    margin: float = option(
        "How far the metric may fall below that of step 0; less than its noise never counts.", 0.02, low=0
    )
    non_finite: bool = option("Roll back after health.max_skipped_steps non-finite steps in a row as well.", False)
    rollbacks: int = option(
        "How often the run rolls back before it stops; 0 stops at once.", 2, low=0, was="roll_backs"
    )
    lr_factor: float = option("Each time the learning rate is multiplied by this.", 0.3, above=0, high=1)

    def is_on(self, warm_start: bool) -> bool:
        return self.when == "always" or (self.when == "auto" and warm_start)


def _cleaned() -> EvalConfig:
    """Images as training frames are: on Kvasir the position box stands on some classes and gives them away."""
    config = EvalConfig()
    config.data.clean = True
    return config


@dataclass
class MonitorConfig(SeveralSetsConfig):
    """kNN evaluation during training."""

    mode: Literal["none", "inline", "watch"] = option(
        "inline: training pauses and its ranks evaluate. watch: `python -m eval_knn RUN watch=true` runs beside it, "
        "and training only reads its results.",
        "none",
    )
    every_steps: int = option("Steps between two evaluations; each has its checkpoint.", 1000, low=1)
    early_stopping: bool = option("End the run when evaluation.selection's patience is used up.", True)
    evaluation: EvalConfig = option(
        "The single set, which selects unless select_by names another: data, split and selection, as for "
        "`python -m eval_knn`.",
        _cleaned(),
    )

    @property
    def sets(self) -> EvaluationSets:
        return self.sets_with(self.evaluation)

    def check(self) -> None:
        for one in (self.sets.selecting, *self.sets.witnesses.values()):
            one.features.refuse_choice("training")


@dataclass
class PretrainConfig:
    """`python -m pretrain`. The defaults are the reference's ViT-L/14 recipe."""

    run: RunConfig = option("The run as a whole.", RunConfig())
    init: InitConfig = option("What a new run starts from.", InitConfig())
    data: DataConfig = option("Shards and loader.", DataConfig())
    batch: BatchConfig = option("Images per step.", BatchConfig())
    augment: AugmentConfig = option("Crops.", AugmentConfig())
    masks: MaskConfig = option("Masked patches.", MaskConfig())
    model: ModelConfig = option("Backbone.", ModelConfig())
    execution: Execution = option("How the backbone runs.", Execution())
    objective: ObjectiveConfig = option("Heads and losses.", ObjectiveConfig())
    distill: DistillConfig = option("The teacher of a distillation.", DistillConfig())
    schedule: ScheduleConfig = option("Learning rate and the like over time.", ScheduleConfig())
    warm_start: WarmStartConfig = option("The start from a backbone without heads.", WarmStartConfig())
    optimizer: OptimizerConfig = option("AdamW.", OptimizerConfig())
    sharding: ShardingConfig = option("Parameters over ranks.", ShardingConfig())
    checkpoint: CheckpointConfig = option("Checkpoints.", CheckpointConfig())
    health: HealthConfig = option("Non-finite steps and collapse.", HealthConfig())
    monitor: MonitorConfig = option("kNN during training.", MonitorConfig())
    regression_guard: RegressionGuardConfig = option(
        "What happens when training does harm.", RegressionGuardConfig(), was="guard"
    )
    log: LogConfig = option("What is written down.", LogConfig())

    @property
    def starts_warm(self) -> bool:
        return self.warm_start.is_on(self.init.weights is not None)

    @property
    def trained_objective(self) -> ObjectiveConfig:
        """The objective, with the warm start's anchor where there is one."""
        return self.warm_start.anchored(self.objective) if self.starts_warm else self.objective

    def total_steps(self, corpus_images: int | None) -> int:
        """The schedule's length, or where the run is to end before it."""
        total = steps_of("schedule.total", self.schedule.total, self.batch.images, corpus_images)
        if self.run.stop_at is None:
            return total
        return min(total, steps_of("run.stop_at", self.run.stop_at, self.batch.images, corpus_images))

    def of_student(self, name: str) -> PretrainConfig:
        """As if this one of `distill.students` were the only student. It begins with random weights."""
        from panendofm.records.run import RunFolder  # brings pyarrow, which --help does without

        size = self.distill.students[name]
        own = {item.name: getattr(size, item.name) for item in fields(size)}
        # Distilled without stochastic depth, as DINOv2 does it.
        model = replace(self.model, **own, trainable="all", drop_path=0.0)
        run = replace(self.run, dir=str(RunFolder(Path(self.run.dir)).student(name).path))
        return replace(self, model=model, run=run, init=InitConfig(), distill=replace(self.distill, students={}))

    @property
    def of_students(self) -> list[PretrainConfig]:
        """This one, and one for each further student of a distillation."""
        return [self, *map(self.of_student, self.distill.students)]

    def _check_students(self) -> None:
        if self.distill.students and self.objective.kind != "distill":
            raise UserError("distill.students are taught by distill.teacher; set objective.kind=distill, or name none.")
        if self.distill.students and self.starts_warm:
            raise UserError(
                "distill.students begin with random weights, which a warm start would leave as they are for a while; "
                "set warm_start.when=never."
            )
        patch_px = self.model.vit().patch_px
        for name in self.distill.students:
            if not _STUDENT_NAME.fullmatch(name):
                raise UserError(
                    f"distill.students.{name}: a student's name is that of a folder; "
                    "use lower-case letters, digits, '_' and '-'."
                )
            own_px = self.of_student(name).model.vit().patch_px
            if own_px != patch_px:
                raise UserError(
                    f"distill.students.{name} has patches of {own_px} px, model.name's are {patch_px} px: all students "
                    "see the same crops, so give them patches of one size."
                )

    def check(self) -> None:
        parse_trainable(self.model.trainable, self.model.vit().depth)
        self._check_students()
        if (self.objective.kind == "distill") != (self.distill.teacher is not None):
            raise UserError(
                "distill.teacher and objective.kind=distill belong together: name both, or neither (distill.teacher="
                f"{self.distill.teacher}, objective.kind={self.objective.kind})."
            )
        if self.run.stop_at is not None:
            parse_duration("run.stop_at", self.run.stop_at)


_STUDENT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")

# What a run may change when it is resumed: it moves, names or times things, and does not touch the numbers.
FREE_SECTIONS = ("execution", "checkpoint", "regression_guard", "health", "log", "monitor")
FREE_KEYS = (
    "run.dir",
    "run.device",
    "run.stop_at",
    "run.timeout_seconds",
    "data.shards",  # the shards' own fingerprint is compared instead
    "data.workers",
    "data.prefetch_batches",
    "data.cache",
    "sharding.mode",
    "sharding.ranks_per_shard_group",
    "sharding.reshard_after_forward",
)


def changed_key(before: Any, now: Any, prefix: str = "") -> str | None:
    """The first key that differs between two configs and must not, when the one run is to go on as the other."""
    for item in fields(now):
        name = prefix + item.name
        if name in FREE_KEYS or name in FREE_SECTIONS:
            continue
        old, new = getattr(before, item.name), getattr(now, item.name)
        if is_dataclass(new):
            inner = changed_key(old, new, f"{name}.")
            if inner is not None:
                return inner
        elif old != new:
            return f"{name} (it was {old!r}, now it is {new!r})"
    return None
