"""Endpoints that send too much, too slowly, or what no endpoint should: failed answers, and the run goes on."""

from __future__ import annotations

import gzip
import json
import resource
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from vqa_benches import disc_bench

from panendofm.runtime.config import load_config
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import read_answers
from panendofm.vqa.client.chat import ChatClient, Reply
from panendofm.vqa.client.completions import MOST_BYTES
from panendofm.vqa.client.config import RunConfig
from panendofm.vqa.client.run import ask_bench

KEY = "sk-very-secret-93f1"
Sender = Callable[[socket.socket], None]


@contextmanager
def raw_server(*senders: Sender) -> Iterator[str]:
    """A server that answers the n-th connection with the n-th sender, and all later ones with the last."""
    listener = socket.create_server(("127.0.0.1", 0))
    count = iter(range(10**6))

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                _read_request(connection)
                senders[min(next(count), len(senders) - 1)](connection)
            except OSError:
                pass  # the client has gone

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _read_request(connection: socket.socket) -> None:
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(65536)
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
    body = len(head.partition(b"\r\n\r\n")[2])
    while body < length:
        body += len(connection.recv(65536))


def sends(body: bytes, *headers: str, status: str = "200 OK") -> Sender:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers, "", ""]
    return lambda connection: connection.sendall("\r\n".join(lines).encode("latin-1") + body)


def completion(content: Any = "B", **more: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": "stop"}], **more}).encode()


def endless(first: bytes, chunk: bytes, pause: float = 0.0) -> Sender:
    def send(connection: socket.socket) -> None:
        connection.sendall(first)
        for _ in range(1_000_000):
            connection.sendall(chunk)
            time.sleep(pause)

    return send


def settings(url: str, out: Path, *more: str) -> RunConfig:
    words = [f"api.url={url}", "api.model=m", f"out={out}", "api.backoff_seconds=0.01", "api.retries=0"]
    return load_config(RunConfig, None, [*words, "api.timeout_seconds=20", *more])


def ask(sender: Sender, *more: str) -> Reply:
    with raw_server(sender) as url:
        client = ChatClient(settings(url, Path("unused"), *more).api)
        try:
            return client.ask(client.body([{"role": "user", "content": "?"}], 16))
        finally:
            client.close()


BOMB = zlib.compressobj(9, zlib.DEFLATED, 31)
BOMB_BYTES = BOMB.compress(bytes(200_000_000)) + BOMB.flush()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DEEP = b'{"a":' * 100_000


@pytest.mark.parametrize(
    ("sender", "says"),
    [
        (endless(HEAD + b"Content-Length: 10000000000\r\n\r\n", b"x" * 65536), "longer than"),
        (endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"), "longer than"),
        (sends(BOMB_BYTES, "Content-Encoding: gzip"), "longer than"),
        (sends(b"no gzip at all", "Content-Encoding: gzip"), "damaged"),
        (sends(b"no deflate at all", "Content-Encoding: deflate"), "damaged"),
        (sends(gzip.compress(completion())[:-9], "Content-Encoding: gzip"), "damaged"),
        (sends(gzip.compress(gzip.compress(completion())), "Content-Encoding: gzip, gzip"), "unknown encoding"),
        (sends(completion(), "Content-Encoding: br"), "unknown encoding"),
        (sends(DEEP), "no chat completion"),
        (sends(b'{"choices": [{"message": {"content": {"a": 1}}}]}'), "no chat completion"),
        (sends(b'{"choices": {"0": 1}}'), "no chat completion"),
        (sends(b"[]"), "no chat completion"),
        (sends(b"\xff\xfe\x00"), "no chat completion"),
        (sends(DEEP, status="500 Oops"), "HTTP 500"),
        (sends(b"\xff\xfe", "Content-Type: text/plain; charset=no-such", status="500 Oops"), "HTTP 500"),
        (lambda connection: connection.sendall(b"\x16\x03garbage\r\n\r\n"), "Error"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_a_failed_answer(sender: Sender, says: str) -> None:
    reply = ask(sender)
    assert reply.error is not None and says in reply.error
    assert reply.text == "" and len(reply.error) < 400


@pytest.mark.parametrize(
    "sender",
    [
        endless(HEAD + b"Content-Length: 1000000\r\n\r\n", b" ", 0.05),
        endless(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", 0.05),
    ],
)
def test_the_time_limit_covers_the_whole_request(sender: Sender) -> None:
    reply = ask(sender, "api.timeout_seconds=1")
    assert reply.error is not None and "within 1 seconds" in reply.error


def test_memory_stays_small_whatever_comes() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ask(endless(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"x" * 65536 + b"\r\n"))
    ask(sends(BOMB_BYTES, "Content-Encoding: gzip"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * MOST_BYTES / 1000


@pytest.mark.parametrize(
    "usage",
    ["many", ["a"], {"prompt_tokens": "7"}, {"prompt_tokens": float("nan")}, {"prompt_tokens": 1e400},
     {"prompt_tokens": -5}, {"prompt_tokens": True}, {"prompt_tokens": {}}, {"prompt_tokens": 10**30}],
)  # fmt: skip
def test_odd_counts_of_tokens_are_left_out(usage: Any) -> None:
    reply = ask(sends(completion(usage=usage)))
    assert reply.error is None and reply.text == "B" and reply.usage == {}


def test_compressed_and_parted_replies_are_read() -> None:
    assert ask(sends(gzip.compress(completion()), "Content-Encoding: gzip")).text == "B"
    assert ask(sends(zlib.compress(completion()), "Content-Encoding: deflate")).text == "B"
    parts = [{"type": "text", "text": "B"}, {"text": None}, 7, {"text": "!"}]
    assert ask(sends(completion(parts))).text == "B!"
    assert ask(sends(completion("\ud800 B"))).text == "? B"
    assert ask(sends(completion(model=["m"], finish_reason={}))).model is None


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "1e400", "soon", "Mon, 99 Foo 99999", "Fri, 31 Dec 0000 1:1:1"]
)
def test_odd_waiting_times_are_not_waited_for(value: str) -> None:
    busy = sends(b"", f"Retry-After: {value}", status="429 Busy")
    with raw_server(busy, sends(completion())) as url:
        client = ChatClient(settings(url, Path("unused"), "api.retries=1").api)
        try:
            assert client.ask(client.body([], 16)).text == "B"
        finally:
            client.close()


@pytest.fixture(scope="module")
def discs(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return disc_bench(tmp_path_factory.mktemp("discs") / "bench")


def test_a_run_goes_on_and_keeps_the_key_to_itself(
    discs: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    choice = {"message": {"content": f"B {KEY}"}, "finish_reason": f"stop {KEY}"}
    echo = json.dumps({"choices": [choice], "model": f"m\x1b[2J {KEY}", "usage": {KEY: 1, "prompt_tokens": 1}}).encode()
    halved = ("x" * (300 - 10 - len("HTTP 500: ")) + KEY).encode()  # a cut at 300 characters would leave half of it
    senders = [
        sends(echo),
        sends(b"bad", "Content-Encoding: gzip"),
        sends(DEEP),
        sends(halved, status="500 Oops"),
        sends(b"\x1b]0;owned\x07", status="500 Oops"),
        sends(echo),
    ]
    with raw_server(*senders) as url:
        assert ask_bench(discs, settings(url, tmp_path, "api.key_env=MY_KEY", "api.concurrency=1")) == 1
    answers = read_answers(tmp_path / "answers.jsonl")
    assert [answer.error is None for answer in answers] == [True, False, False, False, False] + [True] * 11
    for name in ("answers.jsonl", "run.json", "log.txt"):
        content = (tmp_path / name).read_text(encoding="utf-8")
        assert "sk-very" not in content and "\x1b" not in content and "\\u001b" not in content, name


def test_control_characters_do_not_reach_the_terminal(discs: Bench, tmp_path: Path) -> None:
    with raw_server(sends(b"\x1b]0;owned\x07\x9b2J", status="401 No")) as url:
        words = [f"api.url={url}", "api.model=m", f"out={tmp_path}"]
        command = [sys.executable, "-m", "panendofm.vqa", "ask", str(discs.folder), *words]
        done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2 and b"owned" in done.stderr
    assert b"\x1b]" not in done.stderr + done.stdout and b"\x07" not in done.stderr + done.stdout
