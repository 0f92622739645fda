"""`launch run` on a real Slurm: from a corpus to a table of probes, and what a failed stage does to the others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from real_slurm import HERE, Slurm, wait_for

from launch.chain import run_chain
from launch.chain_config import ChainConfig
from launch.jobs.cluster import ClusterConfig
from launch.jobs.record import jobs_of
from launch.status import is_live, print_status, states_of, status_of
from panendofm.records.run import RunFolder
from panendofm.runtime.config import load_config

sys.path.insert(0, str(HERE.parent / "pretrain"))
from engine_runs import TINY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
STAGES = ["shard", "pretrain", "watch", "export", "probe"]
CLUSTER = {
    "kind": "slurm",
    "environment": {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"},
    "max_restarts": 0,
    "shard": {"nodes": 2, "cpus_per_task": 2, "time_minutes": 60},
    "pretrain": {"nodes": 2, "tasks_per_node": 2, "time_minutes": 60},
}


def write_files(folder: Path, corpus: Path) -> tuple[Path, Path]:
    """The chain's and the cluster's YAML."""
    labeled = corpus / "kvasir-dataset-v2"
    training = {name: value for name, value in TINY.items() if name != "log.sample_keys"}
    chain = {
        "dir": str(folder / "made"),
        "shard": {
            "config": str(HERE.parent.parent / "configs" / "corpora" / "synthetic.yaml"),
            "set": [
                f"data_root={corpus}",
                f"leakage.guard=[{labeled}]",
                "screen.text.inside=keep",
                "screen.text.reader=none",
            ],
        },
        "pretrain": {"set": [f"{name}={value}" for name, value in training.items()]},
        "watch": {"set": [f"data.path={labeled}", "ks=[5,20]", f"cache={folder / 'cache'}", "bootstrap.replicates=50"]},
        "export": ["formats=[hub]"],
        "probe": {"set": [f"data={labeled}", "bootstrap.replicates=20"]},
    }
    files = folder / "chain.yaml", folder / "cluster.yaml"
    for path, content in zip(files, (chain, CLUSTER), strict=True):
        path.write_text(yaml.safe_dump(content))
    return files


def states(run: Path) -> dict[str, str]:
    jobs = jobs_of(RunFolder(run))
    return {job.stage: state.state for job, state in zip(jobs, states_of(jobs), strict=True)}


def wait_until_over(run: Path, seconds: float) -> None:
    wait_for(
        lambda: not any(is_live(state) for state in states_of(jobs_of(RunFolder(run)))), seconds, "all jobs are over"
    )


def logs(run: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in run.glob("jobs/*/*_0_log.out"))


def test_from_a_corpus_to_a_table_although_the_shell_is_killed(
    slurm: Slurm, tmp_path: Path, synthetic_corpus: Path
) -> None:
    chain, cluster = write_files(tmp_path, synthetic_corpus)
    command = f"{sys.executable} -m launch run {chain} --cluster {cluster}; echo all is submitted; sleep 1000"
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True, start_new_session=True) as shell:
        assert shell.stdout is not None
        said = ""
        for line in shell.stdout:
            said += line
            if "all is submitted" in line:
                break
        os.killpg(shell.pid, signal.SIGKILL)
    assert f"submitted: {', '.join(STAGES)}" in said, said
    run = tmp_path / "made" / "run"
    wait_until_over(run, 1500)
    assert states(run) == dict.fromkeys(STAGES, "COMPLETED"), logs(run)
    assert (tmp_path / "made" / "probe" / "table.md").read_text().count("|") > 4
    # The monitor outlived the training by one evaluation: the last checkpoint has its figures too.
    last = max(path.name for path in run.glob("checkpoints/step_*"))
    assert (run / "best").exists() and (run / "eval" / f"knn_{last}.json").is_file()
    config = load_config(ChainConfig, chain)
    assert run_chain(config, load_config(ClusterConfig, cluster)) == []


def test_a_failed_stage_stops_what_needs_it_and_is_all_that_is_submitted_again(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "missing"
    chain, cluster_file = write_files(tmp_path, corpus)
    config, cluster = load_config(ChainConfig, chain), load_config(ClusterConfig, cluster_file)
    assert run_chain(config, cluster) == STAGES
    assert run_chain(config, cluster) == [], "all is under way"
    run = tmp_path / "made" / "run"
    wait_until_over(run, 240)
    found = states(run)
    assert found["shard"] == "FAILED", logs(run)
    assert [found[name] for name in ("pretrain", "export", "probe")] == ["CANCELLED"] * 3
    print_status(status_of(run), as_json=False)
    said = capsys.readouterr().out
    assert said.count("cancelled (Dependency") == 3, said
    assert "shard: error:" in said, "why nothing goes on"
    (shard,) = (state for state in states_of(jobs_of(RunFolder(run))) if state.stage == "shard")
    assert shard.requeues == 0 and "missing" in (shard.last_error or ""), "the user's mistake is not tried again"
    assert run_chain(config, cluster)[:2] == ["shard", "pretrain"]
