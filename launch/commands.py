"""What the verbs of `python -m launch` do."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_pipeline import PipelineConfig
from eval_knn import EvalConfig
from launch.chain import run_chain
from launch.chain_config import ChainConfig
from launch.demo import run_demo as make_demo
from launch.demo import run_tour as make_tour
from launch.jobs.cluster import ClusterConfig, load_cluster
from launch.jobs.stages import StageJob, pretrain_job, probe_job, shard_job, watch_job
from launch.jobs.submit import describe_dry_run, submit
from launch.status import print_status, status_of
from panendofm.linear_probe import ProbeConfig
from panendofm.records.run import RunFolder
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError
from pretrain import Machine, PretrainConfig, gpu_named, make_plan, print_plan

if TYPE_CHECKING:
    from data_pipeline import Conditions


def run_demo(folder: str | None) -> None:
    make_demo(Path(folder or "demo_output"))


def run_tour(folder: str | None) -> None:
    make_tour(Path(folder or "demo_output"))


def run_pages(folder: Path) -> None:
    from launch.pages import write_pages

    say(f"pages: {write_pages(folder)}")


def run_status(folder: str | None, json: bool) -> None:
    print_status(status_of(folder or "runs"), json)


def run_report(run: Path, images: bool) -> None:
    from launch.report import write_report  # matplotlib takes a second to import

    if images:
        from launch.report.images import draw_images

        draw_images(RunFolder(run))
    say(f"report: {write_report(run)}")


def _start(stage: StageJob, cluster: ClusterConfig, dry_run: bool) -> None:
    if dry_run:
        print(describe_dry_run(stage.job, cluster))
    else:
        submit(stage.job, cluster, stage.files)


def run_shard(config: PipelineConfig, cluster: str | None, dry_run: bool, **overrides: Any) -> None:
    where = load_cluster(cluster, "shard", **overrides)
    _start(shard_job(config, where), where, dry_run)


def run_pretrain(config: PretrainConfig, cluster: str | None, dry_run: bool, **overrides: Any) -> None:
    where = load_cluster(cluster, "pretrain", **overrides)
    resources = where.resources("pretrain")
    # A number of ranks that can't share the batch is found now and not after a night in the queue.
    config.batch.microgroups_per_rank(resources.nodes * resources.tasks)
    _start(pretrain_job(config, where), where, dry_run)


def run_watch(run: Path, config: EvalConfig, cluster: str | None, dry_run: bool, **overrides: Any) -> None:
    where = load_cluster(cluster, "watch", **overrides)
    if not run.is_dir():
        raise UserError(f"cannot watch {run}: it is not a folder; launch its training first.")
    _start(watch_job(config, run, where), where, dry_run)


def run_probe(networks: list[str], config: ProbeConfig, cluster: str | None, dry_run: bool, **overrides: Any) -> None:
    where = load_cluster(cluster, "probe", **overrides)
    _start(probe_job(config, networks, where), where, dry_run)


def run_doctor(words: list[str], cluster: str | None, nodes: int | None, partition: str | None, full: bool) -> int:
    from launch.doctor.command import default_ranks, load_doctor_config, run_doctor

    examined, is_own = load_doctor_config(words)
    overrides = {"nodes": nodes, "partition": partition}
    if cluster is None:
        overrides["tasks_per_node"] = default_ranks(examined)
    return run_doctor(examined, load_cluster(cluster, "pretrain", **overrides), is_own, full)


def run_rehearse(config: PretrainConfig, nodes: int, gpus: int, gpu: str, device: str) -> int:
    from launch.rehearse.null_cuda import is_loaded, restart_with_null_cuda

    kind = gpu_named(gpu)
    for name, count in (("nodes", nodes), ("gpus", gpus)):
        if count < 1:
            raise UserError(f"--{name} must be at least 1.")
    if device == "cuda" and not is_loaded():
        restart_with_null_cuda(gpus)
    from launch.rehearse.command import run_rehearsal

    return run_rehearsal(config, nodes, gpus, kind, device)


def run_all(config: ChainConfig, cluster: str | None, dry_run: bool) -> None:
    run_chain(config, load_cluster(cluster, "shard"), dry_run)


def run_plan(config: PretrainConfig, **options: Any) -> None:
    arguments = argparse.Namespace(**options)
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
        network=arguments.network,
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
