"""`python -m launch run`: data, training with its monitor, release and probe as jobs that wait for one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from data_pipeline import PipelineConfig
from eval_knn import EvalConfig
from launch.chain_config import ChainConfig
from launch.jobs.cluster import ClusterConfig
from launch.jobs.record import is_job, read_job
from launch.jobs.stages import StageJob, export_job, pretrain_job, probe_job, shard_job, watch_job
from launch.jobs.submit import describe_dry_run, submit
from launch.status import is_live, job_state
from panendofm.linear_probe import ProbeConfig
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config
from panendofm.runtime.console import say
from pretrain import PretrainConfig


@dataclass(frozen=True)
class Link:
    """A stage of the chain. `needs` must have succeeded, `follows` must only have started."""

    stage: str
    make: Callable[[list[str]], StageJob]
    needs: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()


def chain_of(config: ChainConfig, cluster: ClusterConfig) -> list[Link]:
    """All configs are read here: a mistake in the last stage's shows before the first one is submitted."""
    folder = Path(config.dir).absolute()
    shards, run, release = folder / "shards", folder / "run", folder / "release"
    shard = load_config(PipelineConfig, config.shard.config, [*config.shard.set, f"out={shards}"])
    pretrain = load_config(
        PretrainConfig, config.pretrain.config, [*config.pretrain.set, f"data.shards={shards}", f"run.dir={run}"]
    )
    watch = load_config(EvalConfig, config.watch.config, config.watch.set)
    probe = load_config(ProbeConfig, config.probe.config, [*config.probe.set, f"out={folder / 'probe'}"])
    return [
        Link("shard", lambda after: shard_job(shard, cluster, run, after)),
        Link("pretrain", lambda after: pretrain_job(pretrain, cluster, after), needs=("shard",)),
        Link("watch", lambda after: watch_job(watch, run, cluster, after), follows=("pretrain",)),
        Link("export", lambda after: export_job(run, release, config.export, cluster, after), ("pretrain", "watch")),
        Link("probe", lambda after: probe_job(probe, [str(release)], cluster, run, after), ("export",)),
    ]


def run_chain(config: ChainConfig, cluster: ClusterConfig, dry_run: bool = False) -> list[str]:
    """Submit what is neither done nor under way; the names of the stages that were submitted."""
    links = chain_of(config, cluster)
    run = Path(config.dir).absolute() / "run"
    if cluster.kind != "slurm":
        # Without a scheduler nobody starts a stage when another has ended: they run here, one after the other.
        cluster = replace(cluster, kind="debug")
        links = chain_of(config, cluster)
    numbers: dict[str, str] = {}
    submitted = []
    for link in links:
        standing = _standing(run, link.stage)
        if standing == "done":
            say(f"{link.stage}: done already")
            continue
        if standing is not None:
            say(f"{link.stage}: job {standing} is under way already")
            numbers[link.stage] = standing
            continue
        after = [f"afterok:{numbers[name]}" for name in link.needs if name in numbers]
        after += [f"after:{numbers[name]}" for name in link.follows if name in numbers]
        stage = link.make(after)
        submitted.append(link.stage)
        if dry_run:
            print(describe_dry_run(stage.job, cluster))
            continue
        job = submit(stage.job, cluster, stage.files)
        if job.job_id is not None:
            numbers[link.stage] = job.job_id
    say(f"submitted: {', '.join(submitted)}" if submitted else "nothing to submit: every stage is done or under way")
    return submitted


def _standing(run: Path, stage: str) -> str | None:
    """ "done", the number of a live job, or None for a stage that must be submitted."""
    folder = RunFolder(run).job(stage)
    if not is_job(folder):
        return None
    state = job_state(folder)
    if is_live(state):
        return state.job_id
    output = read_job(folder).output
    is_left = output is None or Path(output).exists()
    return "done" if state.state == "COMPLETED" and is_left else None
