"""The stages as jobs: which command each one runs, where its record lies, and how it may be restarted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from launch.jobs.cluster import ClusterConfig
from launch.jobs.record import RAY_ADDRESS, Job
from launch.jobs.submit import describe
from panendofm.records.probe import ProbeFolder
from panendofm.records.run import RunFolder
from panendofm.runtime.config import config_to_yaml


@dataclass(frozen=True)
class StageJob:
    """A job and the files that it needs beside its record."""

    job: Job
    files: dict[str, str] = field(default_factory=dict)


def shard_job(config: Any, cluster: ClusterConfig, run: Path | None = None, after: list[str] | None = None) -> StageJob:
    """`python -m data_pipeline shard`. On Slurm it gets a Ray cluster over the job's nodes."""
    out = Path(config.out).absolute()
    run = run or out.with_name(f"{out.name}-launch")
    on_slurm = cluster.kind == "slurm"
    words = ["data_pipeline", "shard", str(_config_file(run, "shard"))]
    if on_slurm:
        words.append(f"ray.address={RAY_ADDRESS}")
    job = describe("shard", run, words, cluster, uses_ray=on_slurm, restarts_freely=True, output=out, after=after)
    return StageJob(job, _stored(config))


def pretrain_job(config: Any, cluster: ClusterConfig, after: list[str] | None = None) -> StageJob:
    """`python -m pretrain`, one process per GPU."""
    run = Path(config.run.dir)
    words = ["pretrain", str(_config_file(run, "pretrain"))]
    job = describe("pretrain", run, words, cluster, output=RunFolder(run).checkpoints, after=after)
    return StageJob(job, _stored(config))


def watch_job(config: Any, run: Path, cluster: ClusterConfig, after: list[str] | None = None) -> StageJob:
    """The kNN monitor; it ends one evaluation after the run's training job."""
    words = ["launch.jobs.monitor", str(run.absolute()), str(_config_file(run, "watch"))]
    job = describe("watch", run, words, cluster, restarts_freely=True, output=RunFolder(run).best, after=after)
    return StageJob(job, _stored(config))


def export_job(run: Path, to: Path, more: list[str], cluster: ClusterConfig, after: list[str]) -> StageJob:
    words = ["panendofm", "export", str(RunFolder(run.absolute()).best), f"out={to.absolute()}", *more]
    return StageJob(describe("export", run, words, cluster, output=to, after=after))


def probe_job(
    config: Any, weights: list[str], cluster: ClusterConfig, run: Path | None = None, after: list[str] | None = None
) -> StageJob:
    """`panendofm probe`; its record lies with its results, unless it is part of a run."""
    out = Path(config.out).absolute()
    run = run or out
    words = ["panendofm", "probe", *weights, str(_config_file(run, "probe"))]
    job = describe("probe", run, words, cluster, output=ProbeFolder(out).results, after=after)
    return StageJob(job, _stored(config))


def doctor_job(config: Any, folder: Path, cluster: ClusterConfig, full: bool = False) -> StageJob:
    """The checks of `launch doctor`, as many processes as a training would have. It is not started again."""
    words = ["launch.doctor", str(folder.absolute()), str(_config_file(folder, "doctor"))]
    if cluster.resources("doctor").gpus_per_node:
        words.append("--gpu")
    if full:
        words.append("--full")
    return StageJob(describe("doctor", folder, words, replace(cluster, max_restarts=0)), _stored(config))


def _config_file(run: Path, stage: str) -> Path:
    return RunFolder(run.absolute()).job_config(stage)


def _stored(config: Any) -> dict[str, str]:
    """The file that `_config_file` names, in the job's folder."""
    return {RunFolder(Path()).config.name: config_to_yaml(config)}
