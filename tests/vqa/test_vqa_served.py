"""The whole evaluator on a real model behind a real server: plain accuracy is fooled, the rest is not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from vqa_benches import disc_bench
from vqa_scores import score_choices, score_questions

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.runtime.ports import free_port
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.benchmark import find_benchmark
from panendofm.vqa.client.answers import read_answer_set
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.run import ask_bench
from panendofm.vqa.people.config import JudgeConfig
from panendofm.vqa.people.judge import judge_texts

SCRIPT = Path(__file__).with_name("tiny_llava.py")
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "tiny-llava"
    subprocess.run([sys.executable, str(SCRIPT), "make", str(folder)], env=ENVIRONMENT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def server(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "serve", str(model), str(port)], env=ENVIRONMENT, stdout=stream, stderr=stream
        )
        try:
            deadline = time.monotonic() + 120
            while True:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text(encoding="utf-8")
                try:
                    if httpx.get(f"http://127.0.0.1:{port}/health", timeout=2).status_code == 200:
                        break
                except httpx.TransportError:
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait(30)


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return disc_bench(tmp_path_factory.mktemp("discs") / "bench")


def test_a_model_that_ties_letters_to_colors(server: str, model: Path, discs: Bench, tmp_path: Path) -> None:
    words = [f"api.url={server}", f"api.model={model}", f"out={tmp_path / 'answers'}", "api.max_tokens=4"]
    config = load_config(RunConfig, None, [*words, "ask.rotations=all", "ask.blind=true", "api.concurrency=2"])
    assert ask_bench(discs, config) == 0
    results = score_choices(discs, [tmp_path / "answers"], tmp_path / "out", 200)
    own = results.contestants["tiny-llava"]
    assert own.all.accuracy == 1.0
    assert own.rotation is not None and own.blind is not None
    assert own.rotation.rotation_accuracy == pytest.approx(0.25, abs=0.02)
    assert own.rotation.circular_accuracy == 0.0
    assert own.blind.accuracy == pytest.approx(0.25, abs=0.02)
    assert own.accounting.prompt_tokens > 0
    # Its folder is the model's id here; nothing that is written may name the place.
    for path in [*(tmp_path / "answers").glob("*.json*"), *(tmp_path / "out").iterdir()]:
        assert str(model.parent) not in path.read_text(encoding="utf-8"), path


def test_five_questions_about_a_lesion(server: str, model: Path, lesion_bench: Bench, tmp_path: Path) -> None:
    """It has learnt nothing of the kind: what counts is that nothing breaks and every reply is accounted for."""
    words = [f"api.url={server}", f"api.model={model}", f"out={tmp_path / 'answers'}", "api.max_tokens=6"]
    prices = ["api.price_input=1.25", "api.price_output=10"]
    assert ask_bench(lesion_bench, load_config(RunConfig, None, [*words, *prices, "api.concurrency=2"])) == 0
    row = score_questions(lesion_bench, [tmp_path / "answers"], tmp_path / "out", 50).full.rows[0]
    for code in ("Q1", "Q2", "Q3"):
        asked = [i for i in lesion_bench.items if i.task == code and i.entity != "none"]
        assert sum(row.statuses[code].values()) == len(asked) == row.metrics[code.lower()].n
    assert row.metrics["q2"].value < 0.1 and row.accounting is not None and (row.accounting.cost or 0) > 0
    with pytest.raises(UserError, match="contestant"):
        judge_texts(
            lesion_bench,
            find_benchmark("gi_bench").rubric,
            [read_answer_set(tmp_path / "answers", lesion_bench)],
            load_config(JudgeConfig, None, [*words[:2], f"ratings={tmp_path / 'ratings'}"]),
        )


def test_a_model_the_server_does_not_have(server: str, discs: Bench, tmp_path: Path) -> None:
    words = [f"api.url={server}", "api.model=unknown/model", f"out={tmp_path}", "api.retries=0"]
    with pytest.raises(UserError, match="refuses the request"):
        ask_bench(discs, load_config(RunConfig, None, words))


def test_the_same_folder_without_a_server(model: Path, discs: Bench, tmp_path: Path) -> None:
    words = [f"api.local={model}", f"out={tmp_path / 'answers'}", "api.max_tokens=4", "ask.limit=4"]
    assert ask_bench(discs, load_config(RunConfig, None, words)) == 0
    results = score_choices(discs, [tmp_path / "answers"], tmp_path / "out", 0, "allow_partial=true")
    own = results.contestants["tiny-llava"].all
    assert own.accuracy == 1.0 and own.n == 4


def test_garbage_breaks_nothing(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "random-llava"
    make = [sys.executable, str(SCRIPT), "make", str(folder), "--random"]
    subprocess.run(make, env=ENVIRONMENT, check=True, capture_output=True)
    words = [f"api.local={folder}", f"out={tmp_path / 'answers'}", "api.max_tokens=12"]
    assert ask_bench(bench, load_config(RunConfig, None, words)) == 0
    results = score_choices(bench, [tmp_path / "answers"], tmp_path / "out", 50)
    statuses = results.contestants["random-llava"].statuses
    assert sum(statuses.values()) == len(bench.items)
    assert statuses["ok"] < len(bench.items) / 2
