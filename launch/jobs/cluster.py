"""One file describes a cluster: how to get in, and what each stage gets there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from panendofm.runtime.config import load_config, option
from panendofm.runtime.errors import UserError


@dataclass
class Resources:
    """What one stage asks for."""

    nodes: int = option("Machines.", 1, low=1)
    gpus_per_node: int = option("GPUs on each machine.", 0, low=0)
    tasks_per_node: int | None = option(
        "Processes on each machine; null: one per GPU, or one where there is none.", None, low=1
    )
    cpus_per_task: int = option("CPU cores of each process.", 1, low=1)
    memory_gb: float | None = option("Memory on each machine; null: the partition's default.", None, above=0)
    time_minutes: int = option("Time limit of one go; a longer job saves, is requeued and goes on.", 1440, low=1)
    partition: str | None = option("A partition for this stage alone; null: the cluster's.", None)

    @property
    def tasks(self) -> int:
        """Processes on each machine."""
        return self.tasks_per_node or max(self.gpus_per_node, 1)


@dataclass
class ClusterConfig:
    """A place to run jobs. `local` and `debug` need no Slurm: processes on this machine, in the background or here."""

    kind: Literal["slurm", "local", "debug"] = option(
        "slurm, local (in the background here) or debug (in front).", "slurm"
    )
    partition: str | None = option("Slurm partition; null: the cluster's default.", None)
    account: str | None = option("Account that is charged.", None)
    qos: str | None = option("Quality of service.", None)
    constraint: str | None = option("Features that a node must have, such as a100.", None)
    exclude: str | None = option("Nodes to stay away from.", None)
    sbatch: dict[str, str] = option("Any further sbatch options, without their dashes.", {})
    srun: dict[str, str] = option(
        "Further srun options of the stage, without their dashes, such as container-image for Pyxis.", {}
    )
    setup: list[str] = option("Shell lines before the stage starts, such as 'module load cuda'.", [])
    environment: dict[str, str] = option("Environment variables of the job.", {})
    container: str | None = option("Command in front of python, such as 'apptainer exec --nv image.sif'.", None)
    python: str | None = option(
        "Python of the jobs (inside the container, if there is one); null: the one that submits.", None
    )
    warn_seconds: int = option("How long before the time limit the stage is told to save.", 120, low=0)
    max_restarts: int = option(
        "Restarts in a row after crashes, that is, ends that the stage did not ask for.", 3, low=0
    )
    shard: Resources = option("Preparing the data.", Resources())
    pretrain: Resources = option("Training.", Resources())
    watch: Resources = option("The kNN monitor beside the training.", Resources())
    export: Resources = option("Writing the released weights.", Resources())
    probe: Resources = option("Linear probes of the released weights.", Resources())

    def check(self) -> None:
        unused = [name for name in _ONLY_SLURM if self.kind != "slurm" and getattr(self, name)]
        if unused:
            raise UserError(
                f"the cluster's key '{unused[0]}' has no effect on a {self.kind} cluster; drop it, or use kind: slurm."
            )
        for stage in STAGES:
            resources = self.resources(stage)
            if self.kind != "slurm" and resources.nodes > 1:
                raise UserError(
                    f"the cluster's key '{stage}.nodes' is {resources.nodes}, "
                    f"but a {self.kind} cluster is one machine; use kind: slurm, or 1."
                )
            if self.warn_seconds >= 60 * resources.time_minutes:
                raise UserError(
                    f"the cluster's key 'warn_seconds' is {self.warn_seconds}, which is all of '{stage}.time_minutes' "
                    f"({resources.time_minutes}): every go would be told to save at once; lower one or raise the other."
                )

    def resources(self, stage: str) -> Resources:
        """What `stage` gets, its partition filled in. The doctor gets what a training gets, for less time."""
        if stage == DOCTOR:
            own = replace(self.pretrain, time_minutes=min(self.pretrain.time_minutes, _DOCTOR_MINUTES))
        else:
            own = getattr(self, stage)
        return replace(own, partition=own.partition or self.partition)


_ONLY_SLURM = ("partition", "account", "qos", "constraint", "exclude", "sbatch", "srun", "setup", "container", "python")
DOCTOR = "doctor"
_DOCTOR_MINUTES = 30
STAGES = ("shard", "pretrain", "watch", "export", "probe")


def load_cluster(path: Path | str | None, stage: str, **overrides: int | str | None) -> ClusterConfig:
    """The cluster of a YAML file (None: the background of this machine); `overrides` change what `stage` gets there."""
    words = [f"{stage}.{name}={value}" for name, value in overrides.items() if value is not None]
    return load_config(ClusterConfig, path, words if path is not None else ["kind=local", *words])
