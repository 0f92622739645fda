"""The verbs that start stages. They need the stages' config classes, which take seconds to import."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from data_pipeline import PipelineConfig
from eval_knn import EvalConfig
from launch.chain import ChainConfig, run_chain
from launch.cluster import ClusterConfig, load_cluster
from launch.stages import StageJob, pretrain_job, probe_job, shard_job, watch_job
from launch.submit import describe_dry_run, submit
from linear_probe import ProbeConfig
from pretrain import GPUS, Machine, PretrainConfig, gpu_named, make_plan, print_plan
from runtime.command_line import Command
from runtime.config import CONFIGS
from runtime.errors import UserError

if TYPE_CHECKING:
    from data_pipeline import Conditions

SLURM_FILE = CONFIGS / "cluster" / "slurm.yaml"


def _cluster_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: in the background here)")
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--partition", help="partition, instead of the cluster file's")
    parser.add_argument("--time-minutes", type=int, help="time limit of one go, instead of the cluster file's")
    parser.add_argument("--dry-run", action="store_true", help="print the job's script and submit nothing")


def _cluster(arguments: argparse.Namespace, stage: str) -> ClusterConfig:
    return load_cluster(
        arguments.cluster,
        stage,
        nodes=arguments.nodes,
        partition=arguments.partition,
        time_minutes=arguments.time_minutes,
    )


def _start(stage: StageJob, cluster: ClusterConfig, dry_run: bool) -> None:
    if dry_run:
        print(describe_dry_run(stage.job, cluster))
    else:
        submit(stage.job, cluster, stage.files)


def _shard(arguments: argparse.Namespace, config: PipelineConfig) -> None:
    cluster = _cluster(arguments, "shard")
    _start(shard_job(config, cluster), cluster, arguments.dry_run)


def _pretrain(arguments: argparse.Namespace, config: PretrainConfig) -> None:
    cluster = _cluster(arguments, "pretrain")
    resources = cluster.resources("pretrain")
    # A number of ranks that can't share the batch is found now and not after a night in the queue.
    config.batch.microgroups_per_rank(resources.nodes * resources.tasks)
    _start(pretrain_job(config, cluster), cluster, arguments.dry_run)


def _watch(arguments: argparse.Namespace, config: EvalConfig) -> None:
    cluster = _cluster(arguments, "watch")
    run = Path(arguments.run)
    if not run.is_dir():
        raise UserError(f"cannot watch {run}: it is not a folder; launch its training first.")
    _start(watch_job(config, run, cluster), cluster, arguments.dry_run)


def _probe(arguments: argparse.Namespace, config: ProbeConfig) -> None:
    cluster = _cluster(arguments, "probe")
    _start(probe_job(config, arguments.weights, cluster), cluster, arguments.dry_run)


def _doctor_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: on this machine)")
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--partition", help="partition, instead of the cluster file's")


def _doctor(arguments: argparse.Namespace, config: None) -> int:
    from launch.doctor.command import default_ranks, load_doctor_config, run_doctor

    examined, is_own = load_doctor_config(arguments.words)
    overrides = {"nodes": arguments.nodes, "partition": arguments.partition}
    if arguments.cluster is None:
        overrides["tasks_per_node"] = default_ranks(examined)
    return run_doctor(examined, load_cluster(arguments.cluster, "pretrain", **overrides), is_own)


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="FILE", help="where to run (default: here, one after the other)")
    parser.add_argument("--dry-run", action="store_true", help="print the jobs' scripts and submit nothing")


def _run(arguments: argparse.Namespace, config: ChainConfig) -> None:
    run_chain(config, load_cluster(arguments.cluster, "shard"), arguments.dry_run)


def _plan_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", default=SLURM_FILE, metavar="FILE", help="nodes, cores and time limit")
    parser.add_argument("--nodes", type=int, help="machines, instead of the cluster file's number")
    parser.add_argument("--gpu", default="a100-80", help=f"kind of GPU: {', '.join(GPUS)} (default: a100-80)")
    parser.add_argument("--images", type=int, help="images in the corpus, when the shards are not there yet")
    parser.add_argument(
        "--images-per-second", type=float, help="measured speed of one GPU, instead of the table's estimate"
    )
    parser.add_argument("--disk-gb-per-second", type=float, default=1.0, help="for checkpoints, shards (default: 1)")
    parser.add_argument("--video-hours", type=float, help="plan the shards of so many hours of video, too")
    parser.add_argument("--video-fps", type=float, default=1.0, help="frames looked at in a second of it (default: 1)")
    parser.add_argument("--kept-share", type=float, default=0.5, help="of them that pass the screens (default: 0.5)")
    parser.add_argument("--guarded-images", type=int, default=0, help="evaluation images that are kept out")
    parser.add_argument("--driver-memory-gb", type=float, default=64.0, help="where sharding is driven (default: 64)")


def _plan(arguments: argparse.Namespace, config: PretrainConfig) -> None:
    cluster = load_cluster(arguments.cluster, "pretrain", nodes=arguments.nodes)
    resources = cluster.resources("pretrain")
    machine = Machine(
        gpu=gpu_named(arguments.gpu),
        nodes=resources.nodes,
        gpus_per_node=resources.tasks,
        cpus_per_gpu=resources.cpus_per_task,
        time_minutes=resources.time_minutes,
        warn_seconds=cluster.warn_seconds,
        disk_gb_per_second=arguments.disk_gb_per_second,
        images_per_second=arguments.images_per_second,
    )
    if arguments.video_hours is not None:
        # It brings the decoders, which only this option needs.
        from launch.data_plan import print_curation_plan, print_data_plan

        given = _conditions(arguments, cluster)
        print_data_plan(arguments.video_hours, given)
        print_curation_plan(arguments.video_hours, given, config)
    print_plan(make_plan(config, machine, arguments.images))


def _conditions(arguments: argparse.Namespace, cluster: ClusterConfig) -> Conditions:
    """What sharding is planned with: all cores of the cluster file's stage."""
    for name, low in (("video_hours", 0.0), ("video_fps", 0.0), ("kept_share", 0.0), ("disk_gb_per_second", 0.0)):
        if not getattr(arguments, name) > low:
            raise UserError(f"--{name.replace('_', '-')} must be more than {low:g}.")
    if arguments.kept_share > 1:
        raise UserError("--kept-share must be at most 1.")
    from data_pipeline import Conditions

    resources = cluster.resources("shard")
    return Conditions(
        cores=resources.nodes * resources.tasks * resources.cpus_per_task,
        memory_gb=arguments.driver_memory_gb,
        disk_gb_per_second=arguments.disk_gb_per_second,
        kept_share=arguments.kept_share,
        frames_per_second=arguments.video_fps,
        guarded_images=arguments.guarded_images,
        driver_cores=resources.tasks * resources.cpus_per_task,
    )


STAGE_COMMANDS = [
    Command(
        "shard",
        "Prepare the data as a job, on a Ray cluster over its nodes.",
        _shard,
        schema=PipelineConfig,
        options=_cluster_options,
    ),
    Command(
        "pretrain",
        "Train as a job that saves and comes back after every interruption.",
        _pretrain,
        schema=PretrainConfig,
        options=_cluster_options,
    ),
    Command(
        "watch",
        "Evaluate a run's checkpoints as they appear, in a job beside the training.",
        _watch,
        ("RUN",),
        EvalConfig,
        _cluster_options,
    ),
    Command(
        "probe",
        "Probe released weights in a job.",
        _probe,
        ("WEIGHTS…",),
        ProbeConfig,
        _cluster_options,
    ),
    Command(
        "run",
        "The whole chain as jobs that wait for one another; again, it submits only what is missing.",
        _run,
        schema=ChainConfig,
        options=_run_options,
    ),
    Command(
        "doctor",
        "Whether this machine or cluster can train: every part tried, a table with remedies, a JSON for a bug report.",
        _doctor,
        ("[WORDS…]",),
        options=_doctor_options,
    ),
    Command(
        "plan",
        "What a training will need, before it is submitted.",
        _plan,
        schema=PretrainConfig,
        options=_plan_options,
    ),
]
