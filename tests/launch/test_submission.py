"""Cluster files, scripts, snapshots and verdicts: what needs no Slurm to be right or wrong."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launch.jobs import slurm
from launch.jobs.cluster import ClusterConfig, Resources, load_cluster
from launch.jobs.on_exit import crashes_in_a_row, record_end, verdict
from launch.jobs.record import JobEvent, record_event
from launch.jobs.snapshot import PACKAGES, SOURCE, take_snapshot
from launch.jobs.submit import describe, sbatch_script, submit
from launch.jobs.task import port_of, rendezvous
from launch.status import job_state, last_error, print_status, status_of
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

CLUSTERS = SOURCE / "configs" / "cluster"


@pytest.mark.parametrize("name", ["slurm", "local", "debug"])
def test_the_shipped_cluster_files_load(name: str) -> None:
    assert load_config(ClusterConfig, CLUSTERS / f"{name}.yaml").kind == name


def test_flags_change_what_the_stage_gets() -> None:
    cluster = load_cluster(CLUSTERS / "slurm.yaml", "pretrain", nodes=7, partition="fast", time_minutes=None)
    resources = cluster.resources("pretrain")
    assert (resources.nodes, resources.partition, resources.time_minutes, resources.tasks) == (7, "fast", 1440, 8)
    assert cluster.resources("shard").nodes == 2 and cluster.resources("shard").partition is None


def test_mistakes_in_a_cluster_file_are_named(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    for text, words in {
        "kind: slurm\npretrain: {gpus: 8}": "unknown key 'pretrain.gpus'",
        "kind: local\npretrain: {nodes: 2}": "one machine",
        "kind: pbs": "kind",
        "kind: local\ncontainer: apptainer exec x.sif": "'container' has no effect on a local cluster",
        "pretrain: {nodes: 0}": "'pretrain.nodes' is 0, but must be at least 1",
        "pretrain: {tasks_per_node: 0}": "'pretrain.tasks_per_node' is 0, but must be at least 1",
        "pretrain: {memory_gb: -1}": "'pretrain.memory_gb' is -1.0, but must be above 0",
        "pretrain: {time_minutes: 2}": "'warn_seconds' is 120, which is all of 'pretrain.time_minutes'",
    }.items():
        file.write_text(text)
        with pytest.raises(UserError, match=words):
            load_config(ClusterConfig, file)


def test_the_script_asks_for_everything_that_the_cluster_file_says(tmp_path: Path) -> None:
    cluster = ClusterConfig(
        partition="gpu",
        account="endo",
        constraint="a100",
        sbatch={"reservation": "night"},
        setup=["module load cuda"],
        environment={"A": "b c"},
        container="apptainer exec image.sif",
        warn_seconds=77,
        pretrain=Resources(nodes=3, gpus_per_node=4, cpus_per_task=9, memory_gb=1.5, time_minutes=61),
    )
    job = describe("pretrain", tmp_path / "my run", ["pretrain", "x.yaml"], cluster, after=["afterok:5", "after:6"])
    script = sbatch_script(job, cluster)
    for line in (
        "#SBATCH --partition=gpu",
        "#SBATCH --account=endo",
        "#SBATCH --constraint=a100",
        "#SBATCH --reservation=night",
        "#SBATCH --nodes=3",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --cpus-per-task=9",
        "#SBATCH --mem=1536M",
        "#SBATCH --time=61",
        "#SBATCH --signal=USR2@77",
        "#SBATCH --dependency=afterok:5,after:6",
        "#SBATCH --requeue",
        "module load cuda",
        "export A='b c'",
    ):
        assert f"\n{line}\n" in script, line
    assert f"apptainer exec image.sif {sys.executable} -m launch.jobs.task '{tmp_path}/my run/jobs/pretrain'" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


def test_a_container_holds_the_stage_and_nothing_else(tmp_path: Path) -> None:
    """The shell takes the script's words apart as they were meant: spaces in paths and in the container's own words."""
    folder = str(tmp_path / "my run" / "jobs" / "pretrain")
    apptainer = ClusterConfig(container="apptainer exec --nv --bind '/my data:/data' image.sif", python="/opt/py thon")
    pyxis = ClusterConfig(
        srun={
            "container-image": "team/image:1",
            "container-mounts": "/my data:/data",
            "no-container-entrypoint": "",
        },
        python="/opt/py thon",
    )
    for cluster, container in (
        (apptainer, ["apptainer", "exec", "--nv", "--bind", "/my data:/data", "image.sif"]),
        (pyxis, []),
    ):
        job = describe("pretrain", tmp_path / "my run", ["pretrain", "x.yaml"], cluster)
        lines = sbatch_script(job, cluster).splitlines()
        watchdog, command = (shlex.split(line) for line in lines if line.startswith("srun "))
        assert command[-4 - len(container) :] == [*container, "/opt/py thon", "-m", "launch.jobs.task", folder]
        assert ("--container-mounts=/my data:/data" in command) == (cluster is pyxis)
        assert ("--no-container-entrypoint" in command) == (cluster is pyxis)
        # What asks Slurm for the requeue runs outside, where Slurm's commands are.
        assert watchdog[-6:] == [
            sys.executable,
            "-m",
            "launch.jobs.requeue_watchdog",
            folder,
            "$$",
            "&",
        ] and "image" not in str(watchdog)
        (ending,) = (shlex.split(line) for line in lines if "launch.jobs.on_exit" in line)
        assert ending == [sys.executable, "-m", "launch.jobs.on_exit", folder, "$code"]
    plain = ClusterConfig(python="/opt/py thon")
    assert "'/opt/py thon' -m launch.jobs.on_exit" in sbatch_script(job, plain)


def test_without_slurm_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    cluster = ClusterConfig()
    job = describe("pretrain", tmp_path / "a", ["pretrain"], cluster)
    with pytest.raises(UserError, match="there is no Slurm on this machine") as caught:
        submit(job, cluster)
    assert "\n" not in str(caught.value) and not job.folder.exists()
    sbatch_script(job, cluster)  # the script can be looked at anywhere


def test_what_slurm_says_becomes_advice() -> None:
    text = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    assert "key 'account'" in str(slurm.refusal(text, "take the job"))
    assert str(slurm.refusal("sbatch: error: Odd thing", "take the job")) == "Slurm refused to take the job: Odd thing."


def test_a_command_that_fails_in_passing_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A squeue that fails twice as it does when the controller is busy, then answers."""
    for name in ("sbatch", "srun", "scontrol"):
        (tmp_path / name).symlink_to("/bin/true")
    script = tmp_path / "squeue"
    script.write_text(
        f"#!/bin/sh\necho x >> {tmp_path}/tries\n"
        f'if [ "$(wc -l < {tmp_path}/tries)" -lt 3 ]; then echo "Unable to contact slurm controller" >&2; exit 1; fi\n'
        'echo "7|RUNNING|None|2|n1|0:05|1:00|"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(slurm, "_PAUSE_SECONDS", 0.01)
    assert slurm.states(["7"]) == {"7": slurm.SlurmState("RUNNING", "None", 2, "n1", "0:05", "1:00")}
    script.write_text('#!/bin/sh\necho "slurm_load_jobs error: Invalid user" >&2; exit 1\n')
    with pytest.raises(UserError, match="refused to show the jobs: Invalid user"):
        slurm.states(["7"])


def test_a_snapshot_keeps_the_code_and_is_shared_by_equal_code(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for package in PACKAGES:
        (source / package / "__pycache__").mkdir(parents=True)
        (source / package / "__init__.py").write_text(f"NAME = {package!r}\n")
        (source / package / "__pycache__" / "x.pyc").write_bytes(b"x")
    first = take_snapshot(tmp_path / "code", source)
    assert take_snapshot(tmp_path / "code", source) == first
    (source / "pretrain" / "__init__.py").write_text("NAME = 'edited'\n")
    second = take_snapshot(tmp_path / "code", source)
    assert second != first
    assert (first / "pretrain" / "__init__.py").read_text() == "NAME = 'pretrain'\n"
    assert not list(first.rglob("*.pyc"))


def test_verdicts() -> None:
    assert verdict(0, 0, 3) == "done"
    assert verdict(75, 0, 0) == "requeue"
    assert verdict(1, 3, 3) == "requeue"
    assert verdict(1, 4, 3) == "failed"
    assert verdict(2, 1, 3) == "failed"
    assert verdict(75, 0, 3, state="CANCELLED") == "cancelled"
    assert verdict(75, 0, 3, state="PREEMPTED") == "slurm decides"
    # Ended by Slurm's warning: only a stage that keeps what it has done may go on for ever.
    assert verdict(140, 9, 3, restarts_freely=True) == "requeue"
    assert verdict(140, 9, 3) == "failed"


def test_a_save_in_between_forgives_earlier_crashes() -> None:
    ends = [JobEvent("ended", exit_code=code) for code in (1, 1, 75, 1)]
    assert crashes_in_a_row(ends) == 1
    assert crashes_in_a_row(ends[:2]) == 2


def test_a_new_submission_does_not_inherit_the_old_ones_crashes_or_number(tmp_path: Path) -> None:
    job = describe("pretrain", tmp_path, ["pretrain"], ClusterConfig(kind="local", max_restarts=1))
    record_event(job, JobEvent("started", job_id="7", restart=0, nodes="n1", ranks=1))
    for _ in range(3):
        record_event(job, JobEvent("ended", exit_code=1, state="RUNNING", verdict="failed"))
    job = replace(job, submitted=time.time())
    job.save()
    state = job_state(job.folder)
    assert (state.job_id, state.requeues, state.exit_code) == (None, 0, None)
    assert record_end(job, 1) == "requeue"
    assert record_end(job, 1) == "failed"


def test_a_run_can_be_looked_at_where_there_is_no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    job = describe("pretrain", tmp_path / "a", ["pretrain"], ClusterConfig()).with_id("7")
    job.save()
    assert job_state(job.folder).state == "UNKNOWN"
    record_event(job, JobEvent("cancelled"))
    assert job_state(job.folder).state == "CANCELLED"
    record_event(job, JobEvent("ended", exit_code=0, state="RUNNING", verdict="done"))
    assert job_state(job.folder).state == "COMPLETED"


def test_last_errors_are_those_of_the_job_itself(tmp_path: Path) -> None:
    job = describe("pretrain", tmp_path, ["pretrain"], ClusterConfig()).with_id("8")
    job.save()
    (job.folder / "7_0_log.out").write_text("error: of an earlier job.\n")
    assert last_error(job, "8") is None
    log = job.folder / "8_0_log.out"
    log.write_text("12:00:00 step 7\n")
    assert last_error(job, "8") == "12:00:00 step 7"
    log.write_text(log.read_text() + "srun: error: n2: task 1: Killed\npretrain ended with exit code 137: failed\n")
    assert last_error(job, "8") == "n2: task 1: Killed"
    log.write_text("[rank1]: torch.distributed.DistBackendError: no peer\n" + log.read_text())
    assert last_error(job, "8") == "torch.distributed.DistBackendError: no peer"


def test_a_dead_job_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = describe("pretrain", tmp_path / "a", ["pretrain"], ClusterConfig(kind="local")).with_id("7")
    job.save()
    print_status(status_of(tmp_path), as_json=False)
    said = capsys.readouterr().out
    assert "  lost  " in said and "lost: it neither runs nor noted its end; submit it again" in said


def test_every_restart_meets_at_another_port() -> None:
    environment = {
        "SLURM_PROCID": "5",
        "SLURM_NTASKS": "8",
        "SLURM_NNODES": "2",
        "SLURM_LOCALID": "1",
        "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.7",
        "SLURM_JOB_ID": "123",
    }
    first = rendezvous(environment)
    assert (first["RANK"], first["WORLD_SIZE"], first["LOCAL_RANK"], first["LOCAL_WORLD_SIZE"]) == ("5", "8", "1", "4")
    assert first["MASTER_ADDR"] == "10.0.0.7"
    assert rendezvous(environment | {"SLURM_RESTART_COUNT": "1"})["MASTER_PORT"] != first["MASTER_PORT"]
    assert all(12000 <= port_of(job, 3) < 32000 for job in range(0, 10**7, 9973))
