"""A page on this machine alone: 127.0.0.1, a token in the address, nothing for other origins.

Anyone on this machine can connect, so a stranger must not cost anything: the token is checked before a body is read, a
connection serves one request and lives for seconds, and of too many connections the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from panendofm.records.documents import as_document
from panendofm.runtime.console import say
from panendofm.runtime.errors import UserError

_MOST_BYTES = 1_000_000
_MOST_HEADER_BYTES = 16_384
_MOST_CONNECTIONS = 100
_CONNECTION_SECONDS = 20
# The page may load nothing from elsewhere, and nobody may frame it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src 'self' data:; "
_POLICY += "connect-src 'self'; frame-ancestors 'none'"
_HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

Content = tuple[str, bytes]  # media type, body
Posted = dict[str, Any]  # JSON of a page
Route = Callable[[Posted], Content]


def json_content(state: object) -> Content:
    """A dataclass for the page."""
    return "application/json", json.dumps(as_document(state), ensure_ascii=False).encode()


class LocalServer:
    """Answers GET and POST by tables of routes; a `UserError` in a route becomes one sentence with status 400."""

    def __init__(self, get: dict[str, Route], post: dict[str, Route], port: int = 0) -> None:
        self._routes = {"GET": get, "POST": post}
        try:
            self._socket = socket.create_server(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise UserError(f"port: {port} can't be used ({error}); choose another, or 0 for any.") from error
        self._host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._token = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        return f"http://{self._host}/?token={self._token}"

    def close(self) -> None:
        """For one that is not served."""
        self._socket.close()

    def serve(self) -> None:
        say(f"open {self.address} (end with Ctrl-C; answers are saved as they come)")
        config = uvicorn.Config(
            self._app,
            http=_limited_protocol(),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",  # a stranger's bad request is no news
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[self._socket])

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            status, kind, content = await self._answer(request)
        except ClientDisconnect:
            return
        await Response(content, status, _HEADERS, kind)(scope, receive, send)

    async def _answer(self, request: Request) -> tuple[int, str, bytes]:
        # Routes run on the loop, one at a time: they append to files.
        if not self._is_allowed(request):
            return 403, "text/plain", b"not from here"
        route = self._routes.get(request.method, {}).get(request.url.path)
        if route is None:
            return 404, "text/plain", b"nothing here"
        body: Any = {}
        if request.method == "POST":
            body = await _json_body(request)
            if not isinstance(body, dict):
                return 400, "text/plain", b"a JSON object is needed"
        try:
            kind, content = route({**request.query_params, **body})
        except UserError as error:
            return 400, "text/plain", str(error).encode(errors="replace")
        return 200, kind, content

    def _is_allowed(self, request: Request) -> bool:
        origin = f"http://{self._host}"
        # A foreign name for this address (DNS rebinding), another site's script, or a missing token.
        if request.headers.get("Host") != self._host or request.headers.get("Origin", origin) != origin:
            return False
        return secrets.compare_digest(request.query_params.get("token", "").encode(), self._token.encode())


async def _json_body(request: Request) -> Any:
    """The values of a body of at most `_MOST_BYTES`; None where there are none."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > _MOST_BYTES:
            return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _limited_protocol() -> type[asyncio.Protocol]:
    """Connections with a limited life, and a limited number of them."""
    alive: deque[asyncio.Transport] = deque()

    class Limited(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(_CONNECTION_SECONDS, transport.abort)
            alive.append(transport)
            while len(alive) > _MOST_CONNECTIONS:
                alive.popleft().abort()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.transport in alive:
                alive.remove(self.transport)

    return Limited
