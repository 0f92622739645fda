"""Watchers with real processes: every checkpoint once, also when a watcher is killed; `best` is right at the end."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import fork_server
import pytest
import torch
import torch.distributed.checkpoint as dcp

from eval_knn import EvalConfig, Evaluation, Evaluator, read_history, select
from eval_knn import watch as watch_module
from eval_knn.evaluator import evaluation_of
from eval_knn.run_history import claim, record, record_by_hand, update_best
from eval_knn.watch import watch
from panendofm.backbone import VisionTransformer, vit_config
from panendofm.backbone.networks import find_network
from panendofm.records.evaluation import KnnDocument, evaluation_path, read_selection, write_evaluation
from panendofm.records.run import RunFolder, RunInfo, step_name
from panendofm.runtime.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[2]
STEPS = (0, 10, 20, 30, 40, 50)
# A folder that its writer has not finished, and one that lost its description.
TEMPORARY, HEADLESS = ".step_0000098.partial-1", "step_0000099"


def write_checkpoint(run: Path, step: int, whole: bool = True, name: str | None = None) -> Path:
    """A checkpoint as a trainer writes it: under a temporary name first."""
    torch.manual_seed(step)
    model = VisionTransformer(vit_config("vit_test"))
    final = run / "checkpoints" / (name or f"step_{step:07d}")
    temporary = final.with_name(f".{final.name.lstrip('.')}.partial-writing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch remarks that one process saves alone
        dcp.save(
            {f"teacher.backbone.{k}": v for k, v in model.state_dict().items()}, checkpoint_id=temporary, no_dist=True
        )
    if whole:
        description = {"format": 1, "step": step, "vit": model.config.to_dict(), "certificate": None}
        (temporary / "checkpoint.json").write_text(json.dumps(description))
    temporary.rename(final)
    return final


def train(run: Path) -> None:
    torch.set_num_threads(1)
    for step in STEPS:
        write_checkpoint(run, step)
        time.sleep(0.3)


def start_watcher(run: Path, config: EvalConfig, log: Path) -> subprocess.Popen[bytes]:
    keys = [f"data.path={config.data.path}", f"cache={config.cache}", "bootstrap.replicates=50", "features.threads=1"]
    words = [str(run), "watch=true", *keys, "watcher.poll_seconds=0.1", "data.clean=false"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    # A shell that runs the tests in the background makes them ignore Ctrl-C, which their children would inherit.
    inherited = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with log.open("wb") as stream:
            return subprocess.Popen(
                [sys.executable, "-m", "eval_knn", *words],
                cwd=REPOSITORY,
                env=environment,
                stdout=stream,
                stderr=stream,
            )
    finally:
        signal.signal(signal.SIGINT, inherited)


def kill_while_it_evaluates(run: Path, process: subprocess.Popen[bytes]) -> str:
    """Kill a watcher that holds a claim and has not written its result; returns the checkpoint's name."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for lock in (run / "eval" / ".claims").glob("step_*.lock"):
            holder = json.loads(lock.read_text() or "{}")
            if holder.get("pid") != process.pid or evaluation_path(RunFolder(run), lock.stem).exists():
                continue
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.05)
            if not evaluation_path(RunFolder(run), lock.stem).exists():
                process.send_signal(signal.SIGKILL)
                process.wait()
                return lock.stem
            process.send_signal(signal.SIGCONT)
        time.sleep(0.005)
    raise AssertionError("the watcher never claimed a checkpoint")


def evaluated_in(log: Path) -> list[str]:
    return re.findall(r" evaluated (step_\d+)", log.read_text())


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_two_watchers_a_trainer_and_a_kill(tmp_path: Path, config: EvalConfig) -> None:
    run = tmp_path / "run"
    write_checkpoint(run, 98, whole=False, name=HEADLESS)
    (run / "checkpoints" / HEADLESS).rename(run / "checkpoints" / TEMPORARY)
    write_checkpoint(run, 99, whole=False, name=HEADLESS)
    logs = [tmp_path / "first.log", tmp_path / "second.log"]
    first, second = (start_watcher(run, config, log) for log in logs)
    trainer = fork_server.start(train, run)
    try:
        lost = kill_while_it_evaluates(run, first)
        trainer.join()
        wait_until(lambda: len(evaluated_in(logs[0]) + evaluated_in(logs[1])) >= len(STEPS))
        time.sleep(0.5)  # a checkpoint that is wrongly evaluated twice would show up now
        second.send_signal(signal.SIGINT)
        assert second.wait(timeout=60) == 130, logs[1].read_text()
    finally:
        for process in (first, second):
            process.kill()
    names = [f"step_{step:07d}" for step in STEPS]
    assert sorted(path.stem.removeprefix("knn_") for path in (run / "eval").glob("knn_step*.json")) == names
    assert sorted(evaluated_in(logs[0]) + evaluated_in(logs[1])) == names, "each checkpoint exactly once"
    assert lost in evaluated_in(logs[1]), "the killed watcher's work was taken over"
    expected = select([evaluate_alone(run, name, config) for name in names]).evaluation.checkpoint
    assert (run / "best").readlink() == Path("checkpoints") / expected
    assert json.loads((run / "eval" / "knn_selection.json").read_text())["checkpoint"] == expected
    # A watcher that starts later finds nothing to do.
    before = {path: path.stat().st_mtime_ns for path in (run / "eval").glob("knn_*.json")}
    config.watcher.idle_seconds, config.watcher.poll_seconds = 0, 0.1
    watch(run, config)
    assert {path: path.stat().st_mtime_ns for path in (run / "eval").glob("knn_*.json")} == before


def evaluate_alone(run: Path, name: str, config: EvalConfig) -> Evaluation:
    network = find_network(str(run / "checkpoints" / name), Path(config.cache or ""))
    return evaluation_of(Evaluator(config).score(network).document)


def test_damaged_checkpoint_does_not_end_the_watch(
    tmp_path: Path, config: EvalConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    for step in (1, 2):
        write_checkpoint(run, step)
    damaged = next((run / "checkpoints" / "step_0000001").glob("*.distcp"))
    damaged.write_bytes(damaged.read_bytes()[:1000])
    config.watcher.idle_seconds, config.watcher.poll_seconds = 0, 0.1
    watch(run, config)
    said = capsys.readouterr().out
    assert "step_0000001 was not evaluated" in said and "evaluated step_0000002" in said
    assert [e.checkpoint for e in read_history(RunFolder(run))] == ["step_0000002"]


def scored(document: KnnDocument, step: int, top1: float) -> KnnDocument:
    """The same result for another step, with another score."""
    k = {name: replace(at_k, top1=top1) for name, at_k in document.k.items()}
    return replace(document, checkpoint=step_name(step), step=step, k=k)


def test_a_watcher_makes_the_choice_that_a_killed_process_has_left_open(tmp_path: Path, config: EvalConfig) -> None:
    run, evaluator = RunFolder(tmp_path / "run"), Evaluator(config)
    paths = [write_checkpoint(run.path, step) for step in (0, 10)]
    config.watcher.idle_seconds, config.watcher.poll_seconds = 0, 0.1
    document = evaluator.score(find_network(str(paths[0]), evaluator.cache)).document
    record(run, scored(document, 0, 0.5), config.selection)
    write_evaluation(evaluation_path(run, step_name(10)), scored(document, 10, 0.9))  # and killed before the link
    watch(run.path, config)
    chosen = read_selection(run)
    assert run.best.readlink().name == step_name(10) and chosen is not None and chosen.checkpoint == step_name(10)
    selection = evaluation_path(run, "selection")
    selection.write_text("{")  # damaged: written anew
    watch(run.path, config)
    assert read_selection(run) == chosen
    before = [path.lstat().st_mtime_ns for path in (run.best, selection)]
    watch(run.path, config)
    assert [path.lstat().st_mtime_ns for path in (run.best, selection)] == before


def test_watching_a_run_without_evaluations_leaves_it_as_it_is(tmp_path: Path, config: EvalConfig) -> None:
    config.watcher.idle_seconds, config.watcher.poll_seconds = 0, 0.1
    RunFolder(tmp_path).checkpoints.mkdir()
    watch(tmp_path, config)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoints"]


def test_a_checkpoint_that_went_and_came_back_is_scored(
    tmp_path: Path, config: EvalConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rollback removes checkpoints, and training writes others of the same names."""
    run, rounds, listed = RunFolder(tmp_path / "run"), iter(range(100)), watch_module._waiting
    removed, damaged = write_checkpoint(run.path, 10), write_checkpoint(run.path, 20)
    tensors = next(damaged.glob("*.distcp"))
    tensors.write_bytes(tensors.read_bytes()[:1000])

    def waiting(run: RunFolder) -> list[Path]:
        now = next(rounds)
        if now == 1:  # the second time, both are gone
            shutil.rmtree(damaged)
        if now == 2:
            write_checkpoint(run.path, 10)
            write_checkpoint(run.path, 20)
        found = listed(run)
        if now == 0:  # between the list and the claim
            shutil.rmtree(removed)
        return found

    monkeypatch.setattr(watch_module, "_waiting", waiting)
    config.watcher.idle_seconds, config.watcher.poll_seconds = 0.5, 0.1
    watch(run.path, config)
    said = capsys.readouterr().out
    assert "step_0000020 was not evaluated" in said and "step_0000010 was not evaluated" not in said
    assert [e.checkpoint for e in read_history(run)] == ["step_0000010", "step_0000020"]


def test_the_document_says_stop_when_the_run_would(tmp_path: Path, config: EvalConfig) -> None:
    run, evaluator = RunFolder(tmp_path / "run"), Evaluator(config)
    document = evaluator.score(find_network(str(write_checkpoint(run.path, 0)), evaluator.cache)).document
    config.selection.patience_evaluations = 2
    run.write_info(RunInfo(total_steps=100, order_version=1, patience_from_step=20))
    stops = [
        record(run, scored(document, step, top1), config.selection)[1].stop
        for step, top1 in enumerate([0.9, *[0.5] * 22])
    ]
    assert stops == [False] * 22 + [True], "step 22 is the second after step 20"
    chosen = read_selection(run)
    assert chosen is not None and chosen.stop and "above 0.9000 (step_0000000) for 2 evaluations" in chosen.stop_why


def test_best_follows_the_checkpoints_that_exist(tmp_path: Path, config: EvalConfig) -> None:
    run = tmp_path / "run"
    evaluator = Evaluator(config)
    for step in (1, 2, 3):
        path = write_checkpoint(run, step)
        record(RunFolder(run), evaluator.score(find_network(str(path), evaluator.cache)).document, config.selection)
    # The link is no checkpoint of its own: scored by this name too, the history stays as long as it was.
    record(RunFolder(run), evaluator.score(find_network(str(run / "best"), evaluator.cache)).document, config.selection)
    assert [e.checkpoint for e in read_history(RunFolder(run))] == ["step_0000001", "step_0000002", "step_0000003"]
    best = (run / "best").readlink()
    for file in sorted((run / best).iterdir()):
        file.unlink()
    (run / best).rmdir()
    choice, _ = update_best(RunFolder(run), config.selection)
    assert choice is not None and choice.evaluation.checkpoint != best.name
    assert (run / "best").readlink() == Path("checkpoints") / choice.evaluation.checkpoint


def test_a_result_that_goes_while_results_are_read_is_passed_over_and_a_damaged_one_is_not(
    tmp_path: Path, config: EvalConfig
) -> None:
    run, evaluator = RunFolder(tmp_path / "run"), Evaluator(config)
    document = evaluator.score(find_network(str(write_checkpoint(run.path, 1)), evaluator.cache)).document
    other = evaluation_path(run, step_name(2))
    other.parent.mkdir()
    other.symlink_to("taken-away")  # listed, but not there when it is read, as after a rollback
    record(run, document, config.selection)
    assert [e.checkpoint for e in read_history(run)] == [step_name(1)]
    other.unlink()
    other.write_text("{")
    with pytest.raises(UserError, match=f"{other.name}.*remove it to have the checkpoint evaluated again"):
        read_history(run)


def test_results_of_another_split_are_refused(tmp_path: Path, config: EvalConfig) -> None:
    run = tmp_path / "run"
    path = write_checkpoint(run, 1)
    evaluator = Evaluator(config)
    document = evaluator.score(find_network(str(path), evaluator.cache)).document
    record(RunFolder(run), document, config.selection)
    other = replace(document, checkpoint=step_name(2), data=replace(document.data, split_sha256="another"))
    with pytest.raises(UserError, match=r"another split.*out=FOLDER"):
        record(RunFolder(run), other, config.selection)
    assert len(read_history(RunFolder(run))) == 1


def test_results_that_were_measured_otherwise_are_refused_and_nothing_is_written(
    tmp_path: Path, config: EvalConfig
) -> None:
    run = tmp_path / "run"
    path = write_checkpoint(run, 1)
    evaluator = Evaluator(config)
    document = evaluator.score(find_network(str(path), evaluator.cache)).document
    record(RunFolder(run), document, config.selection)
    fewer = {k: figures for k, figures in document.k.items() if k != "20"}
    for other, said in (
        (
            replace(document, temperature=5.0),
            r"with temperature=0.07 \(step_0000001\), which one with 5 can't.*out=FOLDER",
        ),
        (replace(document, k=fewer), r"this one has none at 20; add them to ks, or set out=FOLDER"),
    ):
        for store in (record, record_by_hand):
            with pytest.raises(UserError, match=said):
                store(RunFolder(run), other, config.selection)
    assert read_history(RunFolder(run)) == [evaluation_of(document)]


def test_a_look_at_a_run_moves_neither_its_results_nor_its_best(
    tmp_path: Path, config: EvalConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """By another rule the other checkpoint would be best, and its figures are not the run's own."""
    run = RunFolder(tmp_path / "run")
    evaluator = Evaluator(config)
    for step, top1, top5 in ((1, 0.5, 0.9), (2, 0.7, 0.8)):
        path = write_checkpoint(run.path, step)
        document = evaluator.score(find_network(str(path), evaluator.cache)).document
        at_k = {k: replace(figures, top1=top1, top5=top5) for k, figures in document.k.items()}
        live = replace(document, weights_sha256="", k=at_k)  # as a trainer scores its model
        record(run, live if step == 2 else replace(document, k=at_k), config.selection)
    before = {path.name: path.read_bytes() for path in run.evaluations.glob("*.json")}
    assert run.best.readlink().name == step_name(2) and len(before) == 3
    asked = replace(config.selection, metric="top5_k20", patience_evaluations=9)
    first = evaluator.score(find_network(str(run.checkpoint(1)), evaluator.cache)).document
    record_by_hand(run, first, asked)
    choice, _ = record_by_hand(run, document, asked)
    assert choice is not None and choice.evaluation.checkpoint == step_name(2)
    assert run.best.readlink().name == step_name(2)
    assert {path.name: path.read_bytes() for path in run.evaluations.glob("*.json")} == before
    assert "best is chosen by the run's own rule (top1_k20)" in capsys.readouterr().out
    # What the run has not scored itself is stored and may become the best, by the run's rule.
    path = write_checkpoint(run.path, 3)
    document = evaluator.score(find_network(str(path), evaluator.cache)).document
    higher = {k: replace(figures, top1=0.9, top5=0.0) for k, figures in document.k.items()}
    record_by_hand(run, replace(document, k=higher), asked)
    assert run.best.readlink().name == step_name(3)
    # Other weights under a name are another checkpoint.
    other = replace(document, weights_sha256="0" * 64, k={k: replace(f, top1=0.1) for k, f in higher.items()})
    record_by_hand(run, other, config.selection)
    assert run.best.readlink().name == step_name(2)


def hold_claim(run: Path, pipe: Connection) -> None:
    with claim(RunFolder(run), "x") as mine:
        pipe.send(mine)
        time.sleep(60)


def test_a_claim_is_one_process_only_and_ends_with_it(tmp_path: Path) -> None:
    ours, theirs = fork_server.pipe()
    other = fork_server.start(hold_claim, tmp_path, theirs)
    assert ours.recv() is True
    with claim(RunFolder(tmp_path), "x") as mine, claim(RunFolder(tmp_path), "y") as free:
        assert (mine, free) == (False, True)
    other.kill()
    other.join()
    with claim(RunFolder(tmp_path), "x") as mine:
        assert mine


def test_watching_nothing(tmp_path: Path, config: EvalConfig) -> None:
    with pytest.raises(UserError, match="cannot watch"):
        watch(tmp_path / "absent", config)
