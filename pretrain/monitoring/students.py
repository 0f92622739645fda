"""Further students of a distillation: each has a run folder of its own inside the run's.

Everything that a run resumes from lies in the run's own checkpoints. A student's folder holds its moving average alone,
under the names of any run, so that evaluation and export read it like one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import Tensor

from panendofm.records.run import CheckpointInfo, RunFolder
from pretrain.config import PretrainConfig
from pretrain.monitoring.monitor import Monitor
from pretrain.monitoring.rollback import Rollbacks
from pretrain.objective.objective import part_name
from pretrain.parallel.world import World
from pretrain.run.checkpoints import Extract
from pretrain.run.retention import Retention

_TEACHER = "teacher."


@dataclass(frozen=True)
class StudentExtract(Extract):
    """What a checkpoint of the run holds of one student."""

    name: str
    config: PretrainConfig  # as if it were the only student

    def state_of(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        own = _TEACHER + part_name(self.name, "")
        return {_TEACHER + key.removeprefix(own): tensor for key, tensor in state.items() if key.startswith(own)}

    def info_of(self, info: CheckpointInfo) -> CheckpointInfo:
        return replace(info, vit=self.config.model.vit().to_dict())


@dataclass(frozen=True)
class FurtherStudent:
    """One student on one rank."""

    name: str
    config: PretrainConfig
    extract: StudentExtract
    monitor: Monitor
    rollbacks: Rollbacks

    @property
    def run(self) -> RunFolder:
        return self.extract.run


def further_students(config: PretrainConfig, run: RunFolder, world: World) -> list[FurtherStudent]:
    """All ranks call it alike. The first student alone decides when the run ends or is rolled back."""
    students = []
    selection = config.monitor.sets.selection
    mode = config.monitor.mode
    for name in config.distill.students:
        own, folder = config.of_student(name), run.student(name)
        retention = Retention(folder, config.checkpoint, None if mode == "none" else selection, watched=mode == "watch")
        extract = StudentExtract(folder, retention, name, own)
        monitor = Monitor(config.monitor, folder, world, student=name)
        students.append(FurtherStudent(name, own, extract, monitor, Rollbacks(folder, world, selection)))
    return students
