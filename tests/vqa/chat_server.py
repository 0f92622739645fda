"""A small chat server for what a real one can't be made to show: faults, in a given order."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def letter_of(body: dict[str, Any]) -> str:
    """A reply that depends on the request alone."""
    return "ABCD"[hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()[0] % 4]


class ChatServer(ThreadingHTTPServer):
    """`fault` gets the number of the request and its body, and returns what to do instead of answering, or None."""

    daemon_threads = True

    def __init__(self, fault: Callable[[int, dict[str, Any]], Any], reply: Callable[[dict[str, Any]], str]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.fault, self.reply = fault, reply
        self.delay_seconds = 0.0
        self.times: list[float] = []
        self.answered: Counter[str] = Counter()
        self.headers: list[dict[str, str]] = []
        self.bodies: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.times)
            server.times.append(time.monotonic())
            server.headers.append(dict(self.headers))
            server.bodies.append(body)
        time.sleep(server.delay_seconds)
        fault = server.fault(number, body)
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if fault == "garbage":
            self._send(200, "<html>busy</html>")
            return
        if isinstance(fault, float):
            time.sleep(fault)
        elif fault is not None:
            status, text, headers = fault
            self._send(status, text, headers)
            return
        with server.lock:
            server.answered[hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()] += 1
        choice = {"message": {"role": "assistant", "content": server.reply(body)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 2}
        self._send(200, json.dumps({"model": "served-1", "choices": [choice], "usage": usage}))

    def _send(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        content = text.encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client gave up waiting, or was killed

    def log_message(self, *arguments: Any) -> None:
        return


@contextmanager
def chat_server(
    fault: Callable[[int, dict[str, Any]], Any] = lambda number, body: None,
    reply: Callable[[dict[str, Any]], str] = letter_of,
) -> Iterator[ChatServer]:
    server = ChatServer(fault, reply)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
