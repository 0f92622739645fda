"""`python -m launch doctor` as a user types it, and what becomes of ranks that are lost."""

from __future__ import annotations

import getpass
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from launch.doctor.acceptance import STEPS, Ended, _loss_difference, _lost_rank
from launch.doctor.examine import DoctorFolder
from launch.doctor.report import collect, without_private, write_report
from launch.doctor.rows import Notes, Row
from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from pretrain import PretrainConfig, World

ROOT = Path(__file__).resolve().parent.parent.parent
CHECKS = [
    *("packages", "one FAISS", "device", "attention sdpa float32", "attention sdpa bfloat16", "attention xformers"),
    *("attention varlen", "kNN", "rename", "locks", "fsync", "disk speed", "disk space", "shared folder"),
    *("locks over nodes", "collectives", "sharding fsdp float32", "sharding fsdp bfloat16"),
    *("sharding replicate float32", "sharding hsdp float32", "steps", "memory", "traffic", "data rate", "checkpoint"),
]
# What these say depends on what else the machine does: they may warn, and never fail.
OF_SPEED = {"disk speed", "shared folder", "steps", "traffic", "data rate"}


def doctor(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "launch", "doctor", *words]
    own = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"} | environment
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_this_machine_passes(tmp_path: Path) -> None:
    folder = tmp_path / "secret-project" / "DR_SCHMIDT"
    folder.mkdir(parents=True)
    done = doctor(folder, "run.device=cpu", "model.depth=2", "augment.local_crops=2")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (folder / "doctor" / "doctor.json").read_text()
    document = json.loads(text)
    assert [row["check"] for row in document["rows"]] == CHECKS
    unexpected = [row for row in document["rows"] if row["status"] == "fail" or (
        row["status"] == "warn" and row["check"] not in OF_SPEED
    )]  # fmt: skip
    assert not unexpected
    assert len(document["ranks"]) == 2 and all(rows for rows in document["ranks"])
    assert all(f"  {check}  " in done.stdout for check in CHECKS)
    for private in ("secret-project", "DR_SCHMIDT", str(tmp_path), str(ROOT), sys.prefix):
        assert private not in text, private
    host, user = socket.gethostname(), getpass.getuser()
    assert f'"{host}"' not in text and (len(host) < 5 or host not in text)
    assert len(user) < 5 or user not in text
    assert not (folder / "doctor" / "scratch").exists(), "what was needed for a moment is gone"


@pytest.mark.slow
def test_the_acceptance_run_passes(tmp_path: Path) -> None:
    """Its training is the command's own; on a CPU, killed and resumed, it has the same bits."""
    done = doctor(tmp_path, "--full", "run.device=cpu", "model.depth=1", "augment.local_crops=1")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = {row["check"]: row for row in json.loads((tmp_path / "doctor" / "doctor.json").read_text())["rows"]}
    for check in ("training as a command", "killed rank", "resume", "export and reload"):
        assert rows[check]["status"] == "pass", rows[check]
    assert rows["killed rank"]["figures"]["codes"][-1] == -9
    assert rows["resume"]["figures"] == {"losses": 0.0, "weights": 0.0}
    assert list(rows)[-4:] == ["training as a command", "killed rank", "resume", "export and reload"]


def write_metrics(run: Path, losses: list[float]) -> None:
    run.mkdir()
    lines = [{"step": step, "total": loss} for step, loss in enumerate(losses)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_what_the_acceptance_run_calls_wrong(tmp_path: Path) -> None:
    world = cast(World, SimpleNamespace(size=3))
    victim = Ended(-9, 100.0, "")
    assert _lost_rank(world, [Ended(1, 104.0, "lost"), Ended(1, 106.0, "lost"), victim]).status == "pass"
    went_on = _lost_rank(world, [Ended(1, 104.0, "lost"), Ended(0, 120.0, ""), victim])
    assert went_on.status == "fail" and "rank 1 trained on" in went_on.found
    assert _lost_rank(world, [Ended(-9, 250.0, ""), Ended(1, 106.0, "lost"), victim]).status == "fail", "one hung"
    steps = [1.0 + step for step in range(STEPS)]
    for name, losses in (("a", steps), ("b", [*steps[:-1], 12.5]), ("c", steps[:-1]), ("d", [*steps, 13.0])):
        write_metrics(tmp_path / name, losses)
    assert _loss_difference(tmp_path / "a", tmp_path / "a") == 0
    assert _loss_difference(tmp_path / "b", tmp_path / "a") == pytest.approx(0.5 / 12)
    for name in ("c", "d"):  # a step is missing, or one too many
        assert math.isinf(_loss_difference(tmp_path / name, tmp_path / "a"))


@pytest.mark.slow
def test_a_rank_that_is_killed_is_a_row(tmp_path: Path) -> None:
    """By the kernel, in the middle of a check."""
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "sitecustomize.py").write_text(
        "import os, signal, threading, time, pathlib\n"
        "def kill():\n"
        "    notes = pathlib.Path('doctor/scratch/notes/rank_1.jsonl')\n"
        '    while not (notes.is_file() and \'"begun": "sharding"\' in notes.read_text()):\n'
        "        time.sleep(0.05)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if os.environ.get('RANK') == '1':\n"
        "    threading.Thread(target=kill, daemon=True).start()\n"
    )
    done = doctor(tmp_path, "run.device=cpu", PYTHONPATH=f"{ROOT}:{tmp_path / 'fault'}")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = {row["check"]: row for row in json.loads((tmp_path / "doctor" / "doctor.json").read_text())["rows"]}
    assert rows["rank 1"]["status"] == "fail"
    assert "rank 1 ended without a word during 'sharding'" in rows["rank 1"]["found"]
    assert rows["collectives"]["status"] == "pass"


def test_ranks_that_differ_or_are_lost_are_rows(tmp_path: Path) -> None:
    folder = DoctorFolder(tmp_path)
    for rank, version in enumerate(("2.13.0", "2.12.1")):
        notes = Notes(folder.notes(rank))
        with notes.family("versions"):
            notes.add(Row("packages", "pass", "fine", figures={"versions": {"torch": version}}))
        with notes.family("kNN"):
            notes.add(Row("kNN", "pass" if rank == 0 else "fail", f"seen by {rank}", "change it" if rank else ""))
    with Notes(folder.notes(1)).family("attention"):
        raise RuntimeError("a kernel is missing\nwith a page of text")
    rows = {row.check: row for row in collect(folder, 3, "the job ended as failed").rows}
    assert (rows["kNN"].status, rows["kNN"].found) == ("fail", "rank 1: seen by 1")
    assert "torch is 2.12.1 and 2.13.0" in rows["same on all ranks"].found
    assert rows["attention"].found == "RuntimeError: a kernel is missing" and rows["attention"].figures["trace"]
    assert rows["ranks"].status == "fail" and "rank 2 left no notes (the job ended as failed)" in rows["ranks"].found


def test_a_process_that_ended_without_a_word_is_a_row(tmp_path: Path) -> None:
    folder = DoctorFolder(tmp_path)
    notes = Notes(folder.notes(0))
    notes.family("collectives").__enter__()
    (row,) = collect(folder, 1, "the job ended as failed: Segmentation fault").rows
    assert (row.check, row.status) == ("rank 0", "fail")
    assert row.found == (
        "rank 0 ended without a word during 'collectives' (the job ended as failed: Segmentation fault)"
    )
    # When another rank has said what was wrong, that is the news.
    with pytest.raises(RuntimeError), Notes(folder.notes(1)).family("collectives", stops=True):
        raise RuntimeError("NCCL has no device")
    assert [row.found for row in collect(folder, 2, None).rows] == ["RuntimeError: NCCL has no device"]


def test_the_report_names_no_path_host_or_address(tmp_path: Path) -> None:
    config = load_config(PretrainConfig, None, [f"run.dir={tmp_path}", f"data.shards={tmp_path / 'shards'}"])
    folder = DoctorFolder(tmp_path)
    notes = Notes(folder.notes(0))
    with notes.family("file system"):
        raise UserError(f"cannot write {tmp_path}/jobs: the disk is full; free some space on gpu07 (10.1.2.3)")
    write_report(folder.report, collect(folder, 1, None), config, ["gpu07"])
    text = folder.report.read_text()
    assert "the disk is full" in text and "<path>" in text
    assert not any(word in text for word in (str(tmp_path), "gpu07", "10.1.2.3"))


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("cannot read /home/hans/a b.txt", "cannot read <path> b.txt"),
        ("~/data/x is gone", "<path> is gone"),
        ("35 images/s, 1/2 of n1", "35 images/s, 1/2 of <name>"),
        ("pretrain/train.py:12 in run", "pretrain/train.py:12 in run"),
        ("n12 and n1", "n12 and <name>"),
    ],
)
def test_private_words(text: str, published: str) -> None:
    assert without_private(text, ["n1", ""]) == published


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a.yaml", "b.yaml"], "two configs were given"),
        (["nonsense"], "'nonsense' was not expected"),
        (["modle.name=vit_test"], "did you mean 'model'"),
    ],
)
def test_bad_words(words: list[str], sentence: str) -> None:
    from launch.doctor.command import load_doctor_config

    with pytest.raises(UserError, match=sentence):
        load_doctor_config(words)
