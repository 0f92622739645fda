"""A real S3 server on this machine that can be slow, answer with errors, and cut its answers off."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

BUCKET = "endoscopy"


class ObjectStore:
    """moto's server behind faults: every GET of an object waits, and the first ones of each go wrong in turn."""

    def __init__(self) -> None:
        self._application = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.latency_seconds = 0.0
        self.faults: tuple[str, ...] = ()  # of the first GETs of an object: "error", "cut", "truncated"
        self.gets: Counter[str] = Counter()
        self.puts: Counter[str] = Counter()
        self.refuse_puts_after: int | None = None
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        return {**keys, "AWS_ENDPOINT_URL": self.address}

    def client(self) -> Any:
        return boto3.client(
            "s3", endpoint_url=self.address, region_name="us-east-1", aws_access_key_id="t", aws_secret_access_key="t"
        )

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
        is_shard = path.endswith(".tar")
        if method == "PUT" and path.count("/") > 1:
            self.puts[path] += 1
            if self.refuse_puts_after is not None and sum(self.puts.values()) > self.refuse_puts_after:
                start("403 Forbidden", [("Content-Length", "0")])
                return [b""]
        if method != "GET" or not is_shard:
            return self._application(environ, start)
        self.gets[path] += 1
        time.sleep(self.latency_seconds)
        number = self.gets[path] - 1
        fault = self.faults[number] if number < len(self.faults) else None
        if fault == "error":
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        if fault in ("cut", "truncated"):
            return self._part_of(environ, start, keeps_length=fault == "cut")
        return self._application(environ, start)

    def _part_of(self, environ: dict[str, Any], start: Callable[..., Any], keeps_length: bool) -> Iterable[bytes]:
        """Half of the answer: with the length of the whole (the line breaks), or with its own (half an object)."""
        held: list[Any] = []
        body = b"".join(self._application(environ, lambda *words: held.append(words)))
        status, headers = held[0][:2]
        length = len(body) if keeps_length else len(body) // 2
        start(status, [(k, v) for k, v in headers if k.lower() != "content-length"] + [("Content-Length", str(length))])
        return [body[: len(body) // 2]]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    store = ObjectStore()
    try:
        store.client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        store.close()
