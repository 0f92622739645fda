"""Jobs on a real Slurm: preemption, time-out, requeue, crashes, dead nodes, and what Slurm refuses."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from real_slurm import HERE, Slurm, command_of, processes_of, wait_for

from launch.control import cancel_run
from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.record import Job, JobEvent, events_of, events_since_submission, log_files, read_job, record_event
from launch.jobs.slurm import GLANCE
from launch.jobs.submit import describe, submit
from launch.status import job_state, states_of
from panendofm.runtime.errors import UserError


def cluster_of(**changes: Any) -> ClusterConfig:
    resources = Resources(nodes=2, tasks_per_node=2, time_minutes=5)
    values: dict[str, Any] = {"pretrain": resources, "warn_seconds": 30, "environment": {"PYTHONPATH": str(HERE)}}
    return ClusterConfig(**(values | changes))


def start(run: Path, steps: int, *more: str, cluster: ClusterConfig | None = None) -> Job:
    run.mkdir(exist_ok=True)
    cluster = cluster or cluster_of()
    return submit(describe("pretrain", run, ["counting_stage", str(run), str(steps), *more], cluster), cluster)


def trace(run: Path, event: str) -> list[dict[str, Any]]:
    path = run / "trace.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["event"] == event]


def wait_until(job: Job, state: str, seconds: float = 180) -> None:
    try:
        wait_for(lambda: job_state(job.folder).state == state, seconds, f"job {job.job_id} is {state}")
    except pytest.fail.Exception:
        # Its history and its logs are in a folder that is gone when somebody reads of the failure.
        for path in (job.folder / "events.jsonl", *log_files(job)):
            print(f"{path.name}:\n{path.read_text() if path.exists() else 'missing'}")
        raise


def test_two_nodes_with_two_tasks_meet_and_end(slurm: Slurm, tmp_path: Path) -> None:
    job = start(tmp_path / "a", 3)
    wait_until(job, "COMPLETED")
    started = trace(tmp_path / "a", "start")
    environments = sorted((line["env"] for line in started), key=lambda env: int(env["RANK"]))
    assert [env["RANK"] for env in environments] == ["0", "1", "2", "3"]
    assert [env["LOCAL_RANK"] for env in environments] == ["0", "1", "0", "1"]
    assert {env["WORLD_SIZE"] for env in environments} == {"4"}
    assert {env["LOCAL_WORLD_SIZE"] for env in environments} == {"2"}
    assert len({(env["MASTER_ADDR"], env["MASTER_PORT"]) for env in environments}) == 1
    assert started[0]["cwd"] == str(Path.cwd())
    # The packages come from the snapshot, although the job runs in a folder that has them too.
    assert Path(started[0]["code"]) == Path(job.code) and job.code.startswith(f"{tmp_path}/a/jobs/code/")
    state = job_state(job.folder)
    assert (state.requeues, state.exit_code, state.last_error) == (0, 0, None)
    assert "rank 0 starts at 0" in (job.folder / f"{job.job_id}_0_log.out").read_text()


def test_preempted_it_saves_is_requeued_and_goes_on(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 40)
    wait_for(lambda: len(trace(run, "start")) == 4, 120, "all ranks are up")
    time.sleep(0.5)
    # The higher partition wants all nodes.
    slurm.ask(
        "sbatch", "--partition=high", "--nodes=4", "--ntasks-per-node=2", "--output=/dev/null", "--wrap=srun sleep 2"
    )
    wait_until(job, "COMPLETED", 240)
    saved, done = trace(run, "saved"), trace(run, "done")
    assert len(saved) == 4 and {line["signal"] for line in saved} <= {signal.SIGUSR2, signal.SIGTERM}
    # Each rank went on from its own checkpoint, once, and got to the end.
    assert sorted(line["first"] for line in done) == sorted(line["step"] for line in saved)
    assert len(done) == 4 and all(0 < line["first"] < 40 and line["step"] == 40 for line in done)
    ports = {line["env"]["MASTER_PORT"] for line in trace(run, "start")}
    assert len(ports) == 2, "a straggler of the first go could meet the second"
    assert job_state(job.folder).requeues == 1
    log = (job.folder / f"{job.job_id}_0_log.out").read_text()
    assert "rank 0 starts at 0" in log, "the first go's log is lost"


@pytest.mark.slow
def test_requeued_by_hand_any_number_of_times(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    one_task = cluster_of(pretrain=Resources(nodes=1, tasks_per_node=1, time_minutes=5))
    job = start(run, 60, cluster=one_task)
    for go in (1, 2, 3):
        wait_for(lambda go=go: len(trace(run, "start")) == go, 120, f"go {go} has begun")
        time.sleep(0.5)
        slurm.ask("scontrol", "requeue", str(job.job_id))
    wait_until(job, "COMPLETED", 240)
    assert [line["first"] for line in trace(run, "start")] == [0, *(line["step"] for line in trace(run, "saved"))]
    assert job_state(job.folder).requeues == 3


@pytest.mark.slow
def test_told_to_save_before_the_time_limit_it_goes_on_later(slurm: Slurm, tmp_path: Path) -> None:
    """Slurm's shortest limit is a minute."""
    run = tmp_path / "a"
    short = cluster_of(pretrain=Resources(nodes=1, tasks_per_node=1, time_minutes=1), warn_seconds=20)
    job = start(run, 450, cluster=short)
    wait_until(job, "COMPLETED", 180)
    saved = trace(run, "saved")
    assert {line["signal"] for line in saved} == {signal.SIGUSR2}
    assert trace(run, "done")[0]["first"] == saved[-1]["step"]
    assert [event.verdict for event in events_of(job.folder) if event.event == "ended"] == [
        *(["requeue"] * len(saved)),
        "done",
    ]


def test_a_crash_is_retried_and_an_error_of_the_user_is_not(slurm: Slurm, tmp_path: Path) -> None:
    one_task = cluster_of(pretrain=Resources(nodes=1, tasks_per_node=1, time_minutes=5))
    crashing = start(tmp_path / "crash", 12, "crash_at=3", cluster=one_task)
    wrong = start(tmp_path / "wrong", 12, "user_error", cluster=one_task)
    wait_until(wrong, "FAILED")
    state = job_state(wrong.folder)
    assert (state.requeues, state.exit_code) == (0, 2)
    assert state.last_error == "error: the file x is missing; make it."
    wait_until(crashing, "COMPLETED")
    state = job_state(crashing.folder)
    assert (state.requeues, state.exit_code, state.last_error) == (1, 0, None)
    assert trace(tmp_path / "crash", "done")[0]["first"] == 3


def test_cancelled_it_saves_and_stays_cancelled(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 600)
    wait_for(lambda: len(trace(run, "start")) == 4, 120, "all ranks are up")
    with pytest.raises(UserError, match="already running as job"):
        start(run, 600)
    cancel_run(run)
    wait_until(job, "CANCELLED")
    time.sleep(6)  # a requeue would show by now: cred_expire of the test cluster is 5 s
    assert slurm.state(str(job.job_id)) == "CANCELLED"
    assert len(trace(run, "saved")) == 4 and len(trace(run, "start")) == 4
    wait_for(lambda: any(event.event == "ended" for event in events_of(job.folder)), 60, "its end is noted")
    (end,) = (event for event in events_of(job.folder) if event.event == "ended")
    assert end.verdict == "cancelled"
    # After that the same run may be submitted again, and goes on.
    again = start(run, 10)
    wait_until(again, "COMPLETED")
    assert job_state(again.folder).requeues == 0


def test_refusals_are_sentences_and_leave_no_record(slurm: Slurm, tmp_path: Path) -> None:
    cases = {
        "the partition does not exist": cluster_of(partition="nope"),
        "no node has that much memory": cluster_of(pretrain=Resources(memory_gb=900.0)),
        "no node has that many GPUs": cluster_of(pretrain=Resources(gpus_per_node=64, tasks_per_node=1)),
    }
    for words, cluster in cases.items():
        with pytest.raises(UserError, match=words) as caught:
            start(tmp_path / "a", 3, cluster=cluster)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "a" / "jobs" / "pretrain" / "job.json").exists()


def test_a_refusal_leaves_the_last_job_as_it_was(slurm: Slurm, tmp_path: Path) -> None:
    done = start(tmp_path / "a", 2)
    wait_until(done, "COMPLETED")
    with pytest.raises(UserError, match="the partition does not exist"):
        start(tmp_path / "a", 2, cluster=cluster_of(partition="nope"))
    assert read_job(done.folder) == done and job_state(done.folder).state == "COMPLETED"


def test_the_stage_runs_in_the_container_and_its_end_is_seen_outside(slurm: Slurm, tmp_path: Path) -> None:
    """A namespace of its own stands for the image: it is entered by a command in front of python, as Apptainer's is."""
    run = tmp_path / "my run"
    job = start(run, 3, cluster=cluster_of(container="unshare --mount --uts -- env 'IN IMAGE=yes'"))
    wait_until(job, "COMPLETED")
    namespaces = [line["namespace"] for line in trace(run, "start")]
    assert len(namespaces) == 4 and str(Path("/proc/self/ns/mnt").readlink()) not in namespaces
    assert [event.verdict for event in events_of(job.folder) if event.event == "ended"] == ["done"]


def test_a_job_that_can_never_start_is_pointed_out(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start(tmp_path / "a", 3, cluster=cluster_of(pretrain=Resources(nodes=9)))
    assert "can't start" in capsys.readouterr().out


def test_a_submitter_that_dies_before_it_hears_the_number(slurm: Slurm, tmp_path: Path) -> None:
    """The record is written before sbatch; without its number the job is still found."""
    job = start(tmp_path / "a", 200)
    replace(job, job_id=None).save()
    wait_for(lambda: job_state(job.folder).state == "RUNNING", 120, "it is found")
    assert job_state(job.folder).job_id == job.job_id
    with pytest.raises(UserError, match="already running"):
        start(tmp_path / "a", 200)


def test_a_job_that_slurm_has_forgotten_is_known_from_its_history(slurm: Slurm, tmp_path: Path) -> None:
    job = start(tmp_path / "a", 2, cluster=cluster_of(pretrain=Resources()))
    wait_until(job, "COMPLETED")
    replace(job, job_id="999999").save()
    accounts = subprocess.run(["sacct"], capture_output=True, text=True, check=False)
    assert "accounting storage is disabled" in accounts.stderr, "else sacct would be asked"
    assert job_state(job.folder).state == "COMPLETED"
    (job.folder / "events.jsonl").unlink()
    record_event(job, JobEvent("started", job_id="999999", restart=0, nodes="n1", ranks=1))
    assert job_state(job.folder).state == "LOST", "it is dead and did not get to note its end"


def test_a_rank_that_fails_takes_a_stopped_one_with_it(slurm: Slurm, tmp_path: Path) -> None:
    """A stopped rank answers nothing; as soon as another one has failed, Slurm ends it, and the job starts again."""
    run = tmp_path / "a"
    job = start(run, 40, cluster=cluster_of(pretrain=Resources(nodes=1, tasks_per_node=2, time_minutes=5)))
    wait_for(lambda: len(trace(run, "start")) == 2, 120, "both ranks are up")
    first, second = (pid for pid in processes_of(str(job.job_id)) if b"counting_stage" in command_of(pid))
    os.kill(first, signal.SIGSTOP)
    os.kill(second, signal.SIGKILL)
    wait_until(job, "COMPLETED", 150)  # without it srun would wait for five minutes
    assert job_state(job.folder).requeues == 1


def test_a_killed_batch_script_is_started_again(slurm: Slurm, tmp_path: Path) -> None:
    """Also where the watchdog takes longer to come up than a stage would, as on a busy node: the stage waits for it."""
    run, slow_watchdog = tmp_path / "a", tmp_path / "python"
    slow_watchdog.write_text(
        '#!/bin/sh\ncase "$*" in *launch.jobs.requeue_watchdog*) sleep 3 ;; esac\n'
        f'exec {shlex.quote(sys.executable)} "$@"\n'
    )
    slow_watchdog.chmod(0o755)
    job = start(run, 5, cluster=cluster_of(pretrain=Resources(time_minutes=5), python=str(slow_watchdog)))
    wait_for(lambda: trace(run, "start"), 120, "it is up")
    (script,) = (pid for pid in processes_of(str(job.job_id)) if b"slurm_script" in command_of(pid))
    os.kill(script, signal.SIGKILL)
    wait_until(job, "COMPLETED", 150)
    assert job_state(job.folder).requeues == 1
    ends = [event.exit_code for event in events_since_submission(job) if event.event == "ended"]
    assert ends == [128 + signal.SIGKILL, 0], "one end is noted for each go"


def test_status_does_not_wait_for_a_controller_that_is_away(slurm: Slurm, tmp_path: Path) -> None:
    job = start(tmp_path / "a", 3)
    wait_until(job, "COMPLETED")
    slurm.stop_controller()
    try:
        began = time.monotonic()
        (state,) = states_of([job], glance=True)
        assert time.monotonic() - began < 3 * GLANCE.seconds
        assert state.state == "COMPLETED", "by the job's own notes"
    finally:
        slurm.script("controller")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_controller_that_is_away_costs_no_requeue(
    slurm: Slurm, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The stage saves and ends while nobody can be asked for the requeue; meanwhile nothing is submitted beside it."""
    run = tmp_path / "a"
    job = start(run, 60, cluster=cluster_of(pretrain=Resources(time_minutes=5)))
    wait_for(lambda: trace(run, "start"), 120, "it is up")
    (number,) = (pid for pid in processes_of(str(job.job_id)) if b"counting_stage" in command_of(pid))
    slurm.stop_controller()
    try:
        os.kill(number, signal.SIGUSR2)
        wait_for(lambda: trace(run, "saved"), 30, "it has saved")
        with pytest.raises(UserError, match=f"may still run as job {job.job_id}; ask again when Slurm answers"):
            start(run, 60)
        assert "the Slurm controller does not answer" in capsys.readouterr().out
    finally:
        slurm.script("controller")
    wait_until(job, "COMPLETED", 420)  # srun itself waits minutes for the controller before it ends
    assert job_state(job.folder).requeues == 1
    assert trace(run, "done")[0]["first"] == trace(run, "saved")[0]["step"]


@pytest.mark.slow
def test_a_killed_slurmd_moves_the_job(slurm: Slurm, tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 400)
    wait_for(lambda: len(trace(run, "start")) == 4, 120, "all ranks are up")
    slurm.kill_slurmd("n2")
    try:
        wait_until(job, "COMPLETED", 180)
    finally:
        slurm.start_node("n2")
    assert job_state(job.folder).requeues >= 1


def test_output_of_submitted_script_is_the_dry_run(slurm: Slurm, tmp_path: Path) -> None:
    from launch.jobs.submit import sbatch_script

    job = start(tmp_path / "a", 2)
    script = (job.folder / f"{job.job_id}_submission.sh").read_text()
    assert script == sbatch_script(job, cluster_of())
    done = subprocess.run(["bash", "-n"], input=script, text=True, check=False)
    assert done.returncode == 0
