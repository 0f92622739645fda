"""`python -m launch doctor [CONFIG]`: a job on the machine or cluster that is to train, its findings, a report."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import torch

from launch.control import cancel_run
from launch.doctor.examine import DoctorFolder
from launch.doctor.report import collect, print_findings, write_report
from launch.doctor.rows import read_notes
from launch.jobs.cluster import ClusterConfig
from launch.jobs.stages import StageJob, doctor_job
from launch.jobs.submit import submit
from launch.status import JobState, is_live, job_state
from panendofm.runtime.config import CONFIGS, load_config
from panendofm.runtime.console import duration, say
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig
from pretrain.selftest import write_images

DEFAULT_CONFIG = CONFIGS / "pretrain" / "doctor.yaml"
EXIT_FAILED = 1
_DRAWN_IMAGES = 64
_MOST_WORKERS = 4
_POLL_SECONDS = 0.5


def load_doctor_config(words: list[str]) -> tuple[PretrainConfig, bool]:
    """The config that is examined, and whether it is the doctor's own."""
    files = [word for word in words if word.endswith((".yaml", ".yml")) and "=" not in word]
    overrides = [word for word in words if word not in files]
    if len(files) > 1:
        raise UserError(f"python -m launch doctor: two configs were given ({files[0]} and {files[1]}); name one.")
    for word in overrides:
        if "=" not in word:
            raise UserError(
                f"python -m launch doctor: '{word}' was not expected; it takes a CONFIG.yaml and key=value."
            )
    own = [] if files else ["run.dir=doctor", "data.shards=drawn"]
    return load_config(PretrainConfig, files[0] if files else DEFAULT_CONFIG, [*own, *overrides]), not files


def default_ranks(config: PretrainConfig) -> int:
    """One process per GPU; two on a CPU, so that there is something to be said about several."""
    return (torch.cuda.device_count() if config.run.device != "cpu" else 0) or 2


def run_doctor(config: PretrainConfig, cluster: ClusterConfig, is_own_config: bool, full: bool = False) -> int:
    """Submit, wait, print, write; the exit code."""
    if cluster.kind == "debug":  # what the ranks say would stand among the rows
        cluster = replace(cluster, kind="local")
    resources = cluster.resources("doctor")
    ranks = resources.nodes * resources.tasks
    if is_own_config:
        cores = resources.cpus_per_task if cluster.kind == "slurm" else (os.cpu_count() or 1) // ranks
        config.batch = replace(config.batch, images=config.batch.microgroup_images * ranks)
        config.data = replace(config.data, workers=min(max(cores - 1, 1), _MOST_WORKERS))
    config.batch.images_per_rank(ranks)
    run = Path(config.run.dir).absolute()
    folder = DoctorFolder(run if is_own_config else run.with_name(f"{run.name}-doctor"))
    shutil.rmtree(folder.scratch, ignore_errors=True)
    write_images(folder.images, max(_DRAWN_IMAGES, 4 * ranks))
    config, drawn = _with_shards(config, folder)
    stage = doctor_job(config, folder.path, cluster, full)
    say(f"examining with {resources.nodes} × {resources.tasks} processes: {'up to ten' if full else 'a few'} minutes")
    if drawn and not is_own_config:
        say("data.shards does not exist yet: drawn images stand in for it, and the row 'data rate' is about those")
    state = _submit_and_wait(stage, cluster, folder)
    return _conclude(folder, ranks, state, config)


def _with_shards(config: PretrainConfig, folder: DoctorFolder) -> tuple[PretrainConfig, bool]:
    if Path(config.data.shards).is_dir():
        return replace(config, data=replace(config.data, shards=str(Path(config.data.shards).absolute()))), False
    data = replace(config.data, shards=str(folder.images), sampling_weights={}, window_shards=None)
    return replace(config, data=data), True


def _submit_and_wait(stage: StageJob, cluster: ClusterConfig, folder: DoctorFolder) -> JobState:
    """Until the job is over; what the first rank is at is told on the way. Ctrl-C ends the job."""
    job = submit(stage.job, cluster, stage.files)
    told: list[str] = []
    began = time.monotonic()
    try:
        while True:
            state = job_state(job.folder)
            begun = read_notes(folder.notes(0)).begun
            for name in begun[len(told) :]:
                say(f"{duration(time.monotonic() - began):>6}  {name}")
            told = begun
            if not is_live(state):
                return state
            time.sleep(_POLL_SECONDS if job.kind != "slurm" else 4 * _POLL_SECONDS)
    except KeyboardInterrupt:
        cancel_run(job.run, job.stage)
        raise


def _conclude(folder: DoctorFolder, ranks: int, state: JobState, config: PretrainConfig) -> int:
    ended_badly = None
    if state.state != "COMPLETED":
        ended_badly = f"the job ended as {state.state.lower()}{f': {state.last_error}' if state.last_error else ''}"
    findings = collect(folder, ranks, ended_badly)
    print_findings(findings)
    write_report(folder.report, findings, config, private=[state.nodes, str(folder.path)])
    shutil.rmtree(folder.scratch, ignore_errors=True)
    say(f"for a bug report: {folder.report}")
    return EXIT_FAILED if findings.counts["fail"] else 0
