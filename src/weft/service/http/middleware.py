"""Middleware for all requests: limits the size of the body, checks the Host header, adds security headers."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from weft.errors import Forbidden, InvalidRequest
from weft.service.config import is_loopback
from weft.service.http.errors import answer, shape

LARGEST_BODY = 4 << 20
_LARGER = f"the request is larger than {LARGEST_BODY} bytes"
_TOO_LARGE = 413
_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class RequestGuard:
    """A wrapper of an application. `hosts_checked` admits only loopback host names, for a service without tenants."""

    def __init__(self, app: ASGIApp, *, hosts_checked: bool) -> None:
        self._app, self._hosts_checked = app, hosts_checked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(Headers(scope=scope))
        if refused is not None:
            await refused(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, _limited(receive), send_with_headers)

    def _refused(self, headers: Headers) -> Response | None:
        if self._hosts_checked and not is_loopback(_name(headers.get("host", ""))):
            # DNS rebinding: a foreign page whose name resolves to this machine could ask in the name of the user.
            return answer(Forbidden("this service answers to localhost only", hint="Use its address, 127.0.0.1."))
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > LARGEST_BODY:
            return JSONResponse(shape(InvalidRequest(_LARGER, hint="Create fewer at once.")), _TOO_LARGE)
        return None


def _limited(receive: Receive) -> Receive:
    taken = 0

    async def limited() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > LARGEST_BODY:
            raise HTTPException(_TOO_LARGE, _LARGER)
        return message

    return limited


def _name(host: str) -> str:
    """Return the host name in a Host header, without port and brackets."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
