"""A page on this machine alone: 127.0.0.1, a token in the address, nothing for other origins."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from panendofm.records.documents import as_document
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError

_MOST_BYTES = 1_000_000
# The page may load nothing from elsewhere, and nobody may frame it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
_POLICY += "connect-src 'self'; frame-ancestors 'none'"

Content = tuple[str, bytes]  # media type, body
Posted = dict[str, Any]  # JSON of a page
Route = Callable[[Posted], Content]


def json_content(state: object) -> Content:
    """A dataclass for the page."""
    return "application/json", json.dumps(as_document(state), ensure_ascii=False).encode()


class LocalServer(ThreadingHTTPServer):
    """Answers GET and POST by tables of routes; a `UserError` in a route becomes one sentence with status 400."""

    daemon_threads = True

    def __init__(self, get: dict[str, Route], post: dict[str, Route], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.get, self.post = get, post
        self.token = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/?token={self.token}"

    def serve(self) -> None:
        say(f"open {self.address} (end with Ctrl-C; answers are saved as they come)")
        try:
            self.serve_forever(0.2)
        finally:
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: LocalServer

    def do_GET(self) -> None:
        self._answer(self.server.get, {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body: Any = None
        if 0 < length <= _MOST_BYTES:
            try:
                body = json.loads(self.rfile.read(length))
            except ValueError:
                body = None
        if not isinstance(body, dict):
            self._send(400, "text/plain", b"a JSON object is needed")
            return
        self._answer(self.server.post, body)

    def _answer(self, routes: dict[str, Route], body: Posted) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        if not self._is_allowed(query.get("token", "")):
            self._send(403, "text/plain", b"not from here")
            return
        route = routes.get(address.path)
        if route is None:
            self._send(404, "text/plain", b"nothing here")
            return
        try:
            kind, content = route({**query, **body})
        except UserError as error:
            self._send(400, "text/plain", str(error).encode())
            return
        self._send(200, kind, content)

    def _is_allowed(self, token: str) -> bool:
        own = f"127.0.0.1:{self.server.server_address[1]}"
        # A foreign name for this address (DNS rebinding), another site's script, or a missing token.
        if self.headers.get("Host") != own or self.headers.get("Origin", f"http://{own}") != f"http://{own}":
            return False
        return secrets.compare_digest(token.encode(), self.server.token.encode())

    def _send(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        charset = "; charset=utf-8" if kind.startswith("text/") else ""
        for name, value in {
            "Content-Type": kind + charset,
            "Content-Length": str(len(content)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        return
