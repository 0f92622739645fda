"""The exam's server and files against strangers: odd requests, slow clients, and lines that others wrote."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from page_server import PageServer
from vqa_answers import write_contestant, write_reader

from panendofm.runtime.errors import UserError
from panendofm.vqa.bench.bench_folder import Bench
from panendofm.vqa.client.answers import read_answer_set
from panendofm.vqa.people.readers import read_people


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("people")


@pytest.fixture(scope="module")
def server(lesion_bench: Bench, people: Path) -> Iterator[PageServer]:
    server = PageServer("exam", str(lesion_bench.folder), f"people={people}", "reader=junior-1", "group=juniors")
    yield server
    server.kill()


def stored(people: Path) -> str:
    file = people / "junior-1.jsonl"
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def raw(server: PageServer, request: str, body: bytes = b"") -> bytes:
    port = int(server.address.partition("127.0.0.1:")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode() + body)
        return connection.recv(65536)


def path_and_host(server: PageServer, path: str) -> tuple[str, str]:
    host, _, query = server.at(path).removeprefix("http://").partition("/")
    return f"/{query}", host


@pytest.mark.parametrize(
    "seconds", ["nan", '"nan"', "1e999", "-1e999", "-5", "NaN", "Infinity", "{}", "[]", "true", '"12"', "1" * 400]
)
def test_odd_times_are_not_stored(server: PageServer, lesion_bench: Bench, people: Path, seconds: str) -> None:
    item = next(i for i in lesion_bench.items if i.human and i.kind == "choice")
    body = f'{{"id": "{item.id}", "response": "A", "seconds": {seconds}}}'
    reply = httpx.post(server.at("/answer"), content=body)
    assert reply.status_code == 400
    assert stored(people) == ""


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"7", b"{", b'{"a":' * 50_000, b"\xff\xfe", b'{"id": {}}', b'{"id": [1], "response": {}}',
     b'{"id": "x", "response": "\\ud800"}', b'{"id": null, "response": null}'],
)  # fmt: skip
def test_odd_bodies_get_an_answer(server: PageServer, people: Path, body: bytes) -> None:
    assert httpx.post(server.at("/answer"), content=body).status_code == 400
    assert stored(people) == ""


def test_lone_surrogates_and_long_bodies(server: PageServer, lesion_bench: Bench, people: Path) -> None:
    item = next(i for i in lesion_bench.items if i.human and i.kind == "text")
    body = f'{{"id": "{item.id}", "response": "\\ud800"}}'
    assert httpx.post(server.at("/answer"), content=body).status_code == 400
    assert httpx.post(server.at("/answer"), content=b" " * 1_100_000).status_code == 400
    assert stored(people) == ""


@pytest.mark.parametrize("length", ["abc", "-1", "1e3", "99999999999999999999", "5, 6"])
def test_odd_lengths_get_an_answer(server: PageServer, length: str) -> None:
    path, host = path_and_host(server, "/answer")
    reply = raw(server, f"POST {path} HTTP/1.1\nHost: {host}\nContent-Length: {length}\n\n", b" " * 1_100_000)
    assert reply.startswith(b"HTTP/1.1 4")


def test_a_stranger_is_refused_before_the_body_is_sent(server: PageServer) -> None:
    _, host = path_and_host(server, "/answer")
    request = f"POST /answer?token=wrong HTTP/1.1\nHost: {host}\nContent-Length: 900000\n\n"
    assert raw(server, request).startswith(b"HTTP/1.1 403")


def test_many_silent_clients_cost_no_threads_and_no_service(server: PageServer) -> None:
    path, host = path_and_host(server, "/answer")
    port = int(host.partition(":")[2])
    starts = [b"", b"GET / HTTP/1.1\r\nX-Slow: ", f"POST {path} HTTP/1.1\r\nHost: {host}\r\n".encode()]
    clients = []
    try:
        for number in range(2000):
            client = socket.create_connection(("127.0.0.1", port))
            clients.append(client)
            client.sendall(starts[number % 3])
        status = Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
        threads = int(status.partition("Threads:")[2].split()[0])
        assert threads < 50
        assert httpx.get(server.at("/state"), timeout=60).status_code == 200
    finally:
        for client in clients:
            client.close()


# ------------------------------------------------------------------------------------------ files of others


@pytest.mark.parametrize(
    "change",
    [
        {"response": 7}, {"response": ["A"]}, {"response": {}}, {"usage": 3}, {"usage": "many"},
        {"usage": {"prompt_tokens": "7"}}, {"usage": {"prompt_tokens": float("nan")}}, {"usage": {"prompt_tokens": -1}},
        {"latency_s": "fast"}, {"latency_s": float("nan")}, {"latency_s": float("inf")}, {"latency_s": -1},
        {"id": 7}, {"id": ["a"]}, {"id": {}}, {"model": 7}, {"error": {}}, {"finish_reason": 1}, {"attempts": "1"},
        {"variant": 3}, {"variant": {"rotation": "1"}}, {"variant": {"rotation": -1}}, {"variant": {"rotation": 99}},
        {"variant": {"rotation": 0.5}}, {"variant": {"blind": "no"}}, {"variant": {"prompt": []}},
        {"response": "\ud800"},
    ],
)  # fmt: skip
def test_odd_answers_are_refused_in_one_sentence(lesion_bench: Bench, tmp_path: Path, change: dict[str, Any]) -> None:
    folder = write_contestant(tmp_path / "model", lesion_bench)
    file = folder / "answers.jsonl"
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **change}), *rest, ""]), encoding="utf-8")
    with pytest.raises(UserError, match=r"answers\.jsonl"):
        read_answer_set(folder, lesion_bench)


def test_fields_that_other_programs_leave_out_or_add(lesion_bench: Bench, tmp_path: Path) -> None:
    folder = write_contestant(tmp_path / "model", lesion_bench)
    file = folder / "answers.jsonl"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    bare = [{name: line[name] for name in ("id", "model", "response")} for line in lines]
    bare[0] |= {"usage": {"prompt_tokens": 3, "prompt_tokens_details": {"cached": 1}}, "latency_s": None, "more": [1]}
    file.write_text("".join(json.dumps(line) + "\n" for line in bare), encoding="utf-8")
    answers = list(read_answer_set(folder, lesion_bench).answers.values())
    assert answers[0].usage == {"prompt_tokens": 3} and answers[0].latency_s == 0


@pytest.mark.parametrize(
    "change",
    [{"seconds": "5"}, {"seconds": float("nan")}, {"seconds": -5}, {"seconds": 1e400}, {"order": "x"}, {"id": 3}],
)
def test_odd_lines_of_readers_are_refused(lesion_bench: Bench, tmp_path: Path, change: dict[str, Any]) -> None:
    write_reader(tmp_path, lesion_bench, "junior-1", "juniors", 1.0, lock=False)
    file = tmp_path / "junior-1.jsonl"
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([json.dumps({**json.loads(first), **change}), *rest, ""]), encoding="utf-8")
    with pytest.raises(UserError, match=r"junior-1\.jsonl"):
        read_people(tmp_path, lesion_bench, True)
