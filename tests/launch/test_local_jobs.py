"""Jobs on this machine, as real processes: restarts, cancelling, status and logs without a Slurm."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eval_knn import EvalConfig
from launch.control import cancel_run, print_logs
from launch.jobs.cluster import ClusterConfig, Resources
from launch.jobs.record import Job, events_of, find_runs
from launch.jobs.stages import watch_job
from launch.jobs.submit import describe, submit
from launch.status import job_state, print_status, status_of
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError

STAGES = Path(__file__).resolve().parent.parent / "cluster"


def start(run: Path, steps: int, *more: str, ranks: int = 2, kind: str = "local") -> Job:
    run.mkdir(exist_ok=True)
    cluster = ClusterConfig(
        kind=kind,  # type: ignore[arg-type]
        pretrain=Resources(tasks_per_node=ranks),
        environment={"PYTHONPATH": str(STAGES)},
        max_restarts=1,
    )
    return submit(describe("pretrain", run, ["counting_stage", str(run), str(steps), *more], cluster), cluster)


def wait_for(condition: Callable[[], object], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.05)


def trace(run: Path, event: str) -> list[dict[str, object]]:
    path = run / "trace.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["event"] == event]


def wait_until(job: Job, state: str) -> None:
    wait_for(lambda: job_state(job.folder).state == state, f"{job.stage} is {state}")


def test_a_job_in_the_background_ends_by_itself(tmp_path: Path) -> None:
    job = start(tmp_path / "a", 3)
    wait_until(job, "COMPLETED")
    environments = [line["env"] for line in trace(tmp_path / "a", "start")]
    assert sorted(env["RANK"] for env in environments) == ["0", "1"]  # type: ignore[index]
    assert len({env["MASTER_PORT"] for env in environments}) == 1  # type: ignore[index]
    assert "rank 0 starts at 0" in (job.folder / "local_0_log.out").read_text()


def test_asked_to_save_it_goes_on_from_there(tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 15)
    wait_for(lambda: len(trace(run, "start")) == 2, "both ranks are up")
    os.kill(int(job.job_id or 0), signal.SIGUSR2)
    wait_until(job, "COMPLETED")
    saved, done = trace(run, "saved"), trace(run, "done")
    assert len(saved) == 2 and sorted(str(line["first"]) for line in done) == sorted(
        str(line["step"]) for line in saved
    )
    assert job_state(job.folder).requeues == 1


def test_cancelled_it_saves_and_stays_cancelled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "a"
    job = start(run, 1000)
    wait_for(lambda: len(trace(run, "start")) == 2, "both ranks are up")
    with pytest.raises(UserError, match="already running"):
        start(run, 1000)
    assert job_state(job.folder).state == "RUNNING"
    cancel_run(run)
    wait_until(job, "CANCELLED")
    assert len(trace(run, "saved")) == 2 and len(trace(run, "start")) == 2
    cancel_run(run)
    assert "nothing to cancel" in capsys.readouterr().out


def test_a_crash_ends_the_other_ranks_and_is_retried(tmp_path: Path) -> None:
    """The ranks crash in the first go and only then."""
    job = start(tmp_path / "a", 6, "crash_at=2")
    wait_until(job, "COMPLETED")
    assert [event.verdict for event in events_of(job.folder) if event.event == "ended"] == ["requeue", "done"]


def test_an_error_of_the_user_is_shown_and_not_retried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "a"
    job = start(run, 6, "user_error")
    wait_until(job, "FAILED")
    print_status(status_of(tmp_path), as_json=False)
    said = capsys.readouterr().out
    assert "failed" in said and "last error of" in said and "the file x is missing; make it." in said
    print_status(status_of(tmp_path), as_json=True)
    (status,) = json.loads(capsys.readouterr().out)
    (state,) = status["jobs"]
    assert (state["state"], state["exit_code"], state["requeues"]) == ("FAILED", 2, 0)
    print_logs(run, None, lines=1, follow=False)
    assert "the file x is missing" in capsys.readouterr().out


def test_a_killed_supervisor_is_noticed(tmp_path: Path) -> None:
    run = tmp_path / "a"
    job = start(run, 8, ranks=1)
    wait_for(lambda: trace(run, "start"), "it is up")
    os.kill(int(job.job_id or 0), signal.SIGKILL)
    wait_until(job, "LOST")
    wait_for(lambda: trace(run, "done"), "the orphan ends by itself")


def test_in_front_the_exit_code_is_the_callers(tmp_path: Path) -> None:
    """A process of its own: the supervisor takes over the signals of the process that it runs in."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_local_jobs import start
from panendofm.runtime.errors import exit_code_of
sys.exit(exit_code_of(lambda: start(Path({str(tmp_path / "a")!r}), 2, *sys.argv[1:], kind="debug") and None))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0 and "rank 1 starts at 0" in done.stdout, done.stderr
    (tmp_path / "a" / "counter_0").unlink()
    words = [sys.executable, "-c", script, "user_error"]
    failed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert failed.returncode == 2 and "ended with exit code 2" in failed.stderr


def test_a_job_in_front_is_seen_by_others(tmp_path: Path) -> None:
    run, script = tmp_path / "a", tmp_path / "front.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"from pathlib import Path; from test_local_jobs import start\nstart(Path({str(run)!r}), 1000, kind='debug')\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as front:
        wait_for(lambda: len(trace(run, "start")) == 2, "both ranks are up")
        state = job_state(run / "jobs" / "pretrain")
        assert (state.state, state.job_id) == ("RUNNING", str(front.pid))
        with pytest.raises(UserError, match=f"already running as job {front.pid}"):
            start(run, 1000)
        cancel_run(run)
        front.wait(timeout=60)
    assert job_state(run / "jobs" / "pretrain").state == "CANCELLED"


def test_logs_are_followed_to_their_end(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "a"
    start(run, 15, ranks=1)
    wait_for(lambda: trace(run, "start"), "it is up")
    log = run / "jobs" / "pretrain" / "local_0_log.out"
    with log.open("ab") as stream:
        stream.write(b"half a character \xc3")
    print_logs(run, None, lines=1, follow=True)
    said = capfd.readouterr().out
    assert "half a character" in said and job_state(run / "jobs" / "pretrain").state == "COMPLETED"
    with pytest.raises(UserError, match="--lines 0"):
        print_logs(run, None, lines=0, follow=False)


def test_cancelling_the_monitor_leaves_no_process_behind(tmp_path: Path) -> None:
    run, images = tmp_path / "a", tmp_path / "images"
    training = start(run, 600, ranks=1)
    for number, name in enumerate(("polyps", "normal")):
        (images / name).mkdir(parents=True)
        for image in range(4):
            noise = np.random.default_rng([number, image]).integers(0, 255, (32, 32, 3), np.uint8)
            Image.fromarray(noise).save(images / name / f"{image}.png")
    cluster = ClusterConfig(kind="local")
    stage = watch_job(load_config(EvalConfig, None, [f"data.path={images}"]), run, cluster)
    submit(stage.job, cluster, stage.files)
    log = run / "jobs" / "watch" / "local_0_log.out"
    wait_for(lambda: log.is_file() and "watching" in log.read_text(), "the monitor watches")
    assert len(processes_with(b"eval_knn", str(run).encode())) == 1
    cancel_run(run)
    for folder in (training.folder, stage.job.folder):
        wait_for(lambda folder=folder: job_state(folder).state == "CANCELLED", f"{folder} is cancelled")
    assert processes_with(b"eval_knn", str(run).encode()) == []


def processes_with(*words: bytes) -> list[int]:
    """Numbers of the processes whose command line has all of these words."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if all(word in command for word in words):
                found.append(int(folder.name))
    return found


def test_status_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the folder does not exist"):
        find_runs(tmp_path / "runs")
