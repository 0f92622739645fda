"""The client: retries, refusals, resume after kills, and keys that never reach a file."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fork_server
import pytest
from chat_server import ChatServer, chat_server
from vqa_benches import disc_bench

from panendofm.runtime.config import load_config
from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import Answer, Prices, Variant, cost_of, read_answer_set, read_answers
from panendofm.vqa.client.config import PERTURBATIONS, RunConfig
from panendofm.vqa.client.prompts import messages_of, question_text
from panendofm.vqa.client.run import ask_bench

FAST = ("api.backoff_seconds=0.01", "api.timeout_seconds=2", "api.concurrency=2")
KEY = "sk-very-secret-93f1"


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return disc_bench(tmp_path_factory.mktemp("discs") / "bench")


def settings(server: ChatServer, out: Path, *more: str) -> RunConfig:
    return load_config(RunConfig, None, [f"api.url={server.url}", "api.model=m", f"out={out}", *FAST, *more])


def command(bench: Bench, server: ChatServer, out: Path, *more: str) -> list[str]:
    words = [f"api.url={server.url}", "api.model=m", f"out={out}", *FAST, *more]
    return [sys.executable, "-m", "panendofm.vqa", "ask", str(bench.folder), *words]


def test_faults_that_pass_are_tried_again(discs: Bench, tmp_path: Path) -> None:
    faults: dict[int, Any] = {
        0: (429, "slow down", {"Retry-After": "1"}),
        1: (500, "oops", {}),
        2: "drop",
        3: 2.5,  # longer than the time-out
        4: "garbage",
        7: (503, "", {"Retry-After": "Mon, 16 Nov 2020 10:00:00 GMT"}),
        8: (408, "", {}),
    }
    with chat_server(lambda number, body: faults.get(number)) as server:
        assert ask_bench(discs, settings(server, tmp_path)) == 0
        # Retry-After is obeyed, though the back-off alone is a hundredth of it.
        assert 0.95 <= server.times[1] - server.times[0] < 30
        assert sum(server.answered.values()) >= 16
    answers = read_answers(tmp_path / "answers.jsonl")
    assert len(answers) == 16 and all(a.error is None and a.response in "ABCD" for a in answers)
    assert answers[0].attempts == 6
    assert answers[0].usage == {"prompt_tokens": 100, "completion_tokens": 2}
    run = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    assert run["model_answered"] == ["served-1"] and run["bench_sha256"] == discs.checksum


@pytest.mark.parametrize(
    ("status", "says"), [(401, "api.key_env"), (403, "api.key_env"), (404, "api.model"), (422, "api.token_key")]
)
def test_what_no_retry_mends_stops_the_run(discs: Bench, tmp_path: Path, status: int, says: str) -> None:
    text = json.dumps({"error": {"message": f"no such thing\nas {KEY}"}})
    with chat_server(lambda number, body: (status, text, {})) as server:
        with pytest.raises(UserError) as caught:
            ask_bench(discs, settings(server, tmp_path))
        assert len(server.times) == 1
    message = str(caught.value)
    assert "no such thing as" in message and says in message and str(status) in message and "\n" not in message


def test_the_key_is_sent_but_never_written(discs: Bench, tmp_path: Path) -> None:
    out = tmp_path / "answers"
    environment = {**os.environ, "MY_KEY": KEY}
    echo = json.dumps({"error": {"message": f"your key {KEY} is on hold"}})

    def fault(number: int, body: dict[str, Any]) -> Any:
        return (500, echo, {}) if number in (3, 4, 5) else None

    with chat_server(fault, reply=lambda body: f"B, and your key is {KEY}") as server:
        words = command(discs, server, out, "api.key_env=MY_KEY", "api.retries=1", "api.concurrency=1")
        done = fork_server.run_module(*words[2:], environment=environment)
        assert done.returncode == 1, done.stderr  # one question got no answer
        assert all(headers["Authorization"] == f"Bearer {KEY}" for headers in server.headers)
        refused = command(discs, server, tmp_path / "b", "api.key_env=MY_KEY")
        server.fault = lambda number, body: (401, echo, {})
        stopped = fork_server.run_module(*refused[2:], environment=environment)
        assert stopped.returncode == 2
    assert "is on hold" in stopped.stderr and "error:" in stopped.stderr
    for text in (done.stdout, done.stderr, stopped.stdout, stopped.stderr):
        assert KEY not in text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 4
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path


def test_keys_in_settings_are_refused_without_repeating_them(tmp_path: Path) -> None:
    for words in ([f"api.key_env={KEY}"], [f"api.url=http://user:{KEY}@host/v1"], [f"api.key={KEY}"]):
        with pytest.raises(UserError) as caught:
            load_config(RunConfig, None, ["api.url=http://host/v1", "api.model=m", f"out={tmp_path}", *words])
        assert KEY not in str(caught.value) and "key_env" in str(caught.value)
    with pytest.raises(UserError, match="NOT_SET"):
        load_config(
            RunConfig, None, ["api.url=http://host/v1", "api.model=m", f"out={tmp_path}", "api.key_env=NOT_SET"]
        ).api.key()


def test_declined_images_and_failed_questions(discs: Bench, tmp_path: Path) -> None:
    declined = json.dumps({"error": {"code": "content_filter", "message": "not this picture"}})

    def fault(number: int, body: dict[str, Any]) -> Any:
        return {2: (400, declined, {}), 5: (400, "bad picture", {}), 6: (400, "bad picture", {})}.get(number)

    with chat_server(fault) as server:
        config = settings(server, tmp_path, "api.concurrency=1")
        assert ask_bench(discs, config) == 1
        first = read_answers(tmp_path / "answers.jsonl")
        assert [a.finish_reason for a in first].count("content_filter") == 1
        assert sum(a.error is not None for a in first) == 2
        asked = len(server.times)
        assert asked == 16  # what the server calls a bad request isn't sent again and again
        assert ask_bench(discs, config) == 0
        assert len(server.times) == asked + 2
    assert len(read_answer_set(tmp_path, discs).answers) == 16


def test_an_endpoint_that_is_down_stops_the_run(discs: Bench, tmp_path: Path) -> None:
    with chat_server() as server:
        config = settings(server, tmp_path, "api.retries=1", "api.give_up_after=3")
    with pytest.raises(UserError, match="3 questions in a row"):
        ask_bench(discs, config)


def test_other_settings_need_another_folder(discs: Bench, tmp_path: Path) -> None:
    with chat_server() as server:
        ask_bench(discs, settings(server, tmp_path))
        with pytest.raises(UserError, match="prompt"):
            ask_bench(discs, settings(server, tmp_path, "ask.prompt=letter"))
        before = len(server.times)
        # More variants of the same run are welcome.
        ask_bench(discs, settings(server, tmp_path, "ask.blind=true"))
        assert len(server.times) == before + 16
        assert all(part["type"] == "text" for body in server.bodies[before:] for part in body["messages"][0]["content"])


def comparable(path: Path) -> dict[tuple[str, Variant], tuple[str, str]]:
    answers = read_answers(path)
    found = {(a.id, a.variant): (a.response, a.request_sha256) for a in answers}
    assert len(found) == len(answers), "a question was answered twice"
    return found


def test_five_kills_change_nothing(discs: Bench, tmp_path: Path) -> None:
    dice = random.Random(11)
    with chat_server() as server:
        more = ("ask.rotations=all", "ask.blind=true")
        assert ask_bench(discs, settings(server, tmp_path / "whole", *more)) == 0
        server.delay_seconds = 0.03
        server.answered.clear()
        file = tmp_path / "killed" / "answers.jsonl"
        for kill in range(5):
            before = file.read_bytes().count(b"\n") if file.exists() else 0
            process = subprocess.Popen(command(discs, server, tmp_path / "killed", *more), stdout=subprocess.DEVNULL)
            goal = before + dice.randint(1, 12)
            deadline = time.monotonic() + 60
            while not file.exists() or file.read_bytes().count(b"\n") < goal:
                assert process.poll() is None and time.monotonic() < deadline
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            if kill == 2:  # as if the kill had hit in the middle of a line
                with file.open("ab") as stream:
                    stream.write(b'{"id": "half of a li')
        assert file.read_bytes().count(b"\n") < 80
        finished = subprocess.run(command(discs, server, tmp_path / "killed", *more), check=False, capture_output=True)
        assert finished.returncode == 0, finished.stderr
        assert comparable(file) == comparable(tmp_path / "whole" / "answers.jsonl")
        # Only what was under way when a kill came was asked a second time: two at once, five kills.
        assert sum(server.answered.values()) <= 80 + 5 * 2
        assert set(server.answered) == {sha for _, sha in comparable(file).values()}


def test_variants(bench: Bench) -> None:
    item = next(i for i in bench.items if i.subtask == "VG")
    plain = question_text(item, Variant())
    assert plain.splitlines()[1:5] == [f"{letter}. {o}" for letter, o in zip("ABCD", item.options, strict=True)]
    turned = question_text(item, Variant(rotation=1)).splitlines()
    assert turned[1] == f"A. {item.options[1]}" and turned[4] == f"D. {item.options[0]}"
    assert "letter alone" in question_text(item, Variant(prompt="letter"))
    assert "step by step" in question_text(item, Variant(prompt="cot"))
    image = bench.image(item)
    sent = {None: messages_of(item, Variant(), image, "be brief")}
    assert sent[None][0] == {"role": "system", "content": "be brief"}
    for name in PERTURBATIONS[:6]:
        sent[name] = messages_of(item, Variant(perturb=name), image, "")
    urls = {name: messages[-1]["content"][0]["image_url"]["url"] for name, messages in sent.items()}
    assert len(set(urls.values())) == len(urls)
    assert len(messages_of(item, Variant(blind=True), None, "")[0]["content"]) == 1


def test_cost(golden: Path) -> None:
    case = json.loads((golden / "metrics_gibench.json").read_text(encoding="utf-8"))["cost"]
    answers = [Answer(str(n), Variant(), "m", "A", usage=usage) for n, usage in enumerate(case["usage"])]
    prices = case["prices_usd_per_million"]
    cost = cost_of(answers, Prices(prices["input"], prices["output"]))
    assert cost is not None
    assert cost == pytest.approx(case["expected"]["usd"], abs=1e-9)
    assert cost / len(answers) * 1000 == pytest.approx(case["expected"]["usd_per_1000_questions"], abs=1e-9)
    assert cost_of(answers, Prices(None, 1.0)) is None


def test_answers_that_do_not_belong_are_refused(discs: Bench, bench: Bench, tmp_path: Path) -> None:
    with chat_server() as server:
        ask_bench(discs, settings(server, tmp_path, "ask.limit=5"))
    with pytest.raises(UserError, match="5 of 16"):
        read_answer_set(tmp_path, discs)
    assert len(read_answer_set(tmp_path, discs, allow_partial=True).answers) == 5
    with pytest.raises(UserError, match="another bench"):
        read_answer_set(tmp_path, bench)
    file = tmp_path / "answers.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join([*lines, lines[0]]), encoding="utf-8")
    with pytest.raises(UserError, match="two answers"):
        read_answer_set(tmp_path, discs, allow_partial=True)
    file.write_text(lines[0].replace('"id": "', '"id": "x'), encoding="utf-8")
    with pytest.raises(UserError, match="no question x"):
        read_answer_set(tmp_path, discs, allow_partial=True)
