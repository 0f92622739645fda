"""GPUs as Slurm hands them out: real sbatch scripts of three shapes on nodes whose devices are fake."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from real_slurm import Slurm, wait_for
from test_slurm_jobs import cluster_of, start, trace, wait_until

from launch.jobs.cluster import Resources
from launch.status import job_state


def environments(run: Path) -> list[dict[str, Any]]:
    """Of the ranks of the last go, in their order."""
    found = {line["env"]["RANK"]: line["env"] for line in trace(run, "start")}
    return [found[rank] for rank in sorted(found, key=int)]


def test_one_node_whose_ranks_share_its_gpus(slurm: Slurm, tmp_path: Path) -> None:
    """A rank for each GPU without being told so; every rank sees both and takes the one of its local number."""
    run = tmp_path / "a"
    job = start(run, 2, cluster=cluster_of(pretrain=Resources(nodes=1, gpus_per_node=2, time_minutes=5)))
    wait_until(job, "COMPLETED")
    ranks = environments(run)
    assert [env["LOCAL_RANK"] for env in ranks] == ["0", "1"]
    assert {env["CUDA_VISIBLE_DEVICES"] for env in ranks} == {"0,1"}


def test_two_nodes_whose_ranks_see_their_own_gpu_also_after_a_requeue(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    resources = Resources(nodes=2, gpus_per_node=2, time_minutes=5)
    job = start(run, 60, cluster=cluster_of(pretrain=resources, srun={"gpus-per-task": "1"}))
    wait_for(lambda: len(trace(run, "start")) == 4, 180, "all ranks are up")
    time.sleep(0.5)
    slurm.ask("scontrol", "requeue", str(job.job_id))
    wait_until(job, "COMPLETED", 300)
    assert job_state(job.folder).requeues == 1
    ranks = environments(run)
    places = {(env["SLURM_NODEID"], env["CUDA_VISIBLE_DEVICES"]) for env in ranks}
    assert len(places) == 4, "two ranks have one GPU"
    assert [env["SLURM_NODEID"] for env in ranks] == ["0", "0", "1", "1"]


def test_jobs_of_one_gpu_share_a_node_and_wait_for_a_free_one(slurm: Slurm, tmp_path: Path) -> None:
    """Two of them have a node's two devices; the third starts when one is given back."""
    one = Resources(nodes=1, gpus_per_node=1, time_minutes=5)
    cluster = cluster_of(pretrain=one, sbatch={"nodelist": "n1"})
    runs = [tmp_path / name for name in ("a", "b", "c")]
    jobs = [start(run, 40, cluster=cluster) for run in runs]
    for job in jobs:
        wait_until(job, "COMPLETED", 300)
    devices = [environments(run)[0]["CUDA_VISIBLE_DEVICES"] for run in runs]
    assert set(devices) == {"0", "1"}
    times = [line for run in runs for line in trace(run, "start")]
    assert len(times) == 3, "each started once"
