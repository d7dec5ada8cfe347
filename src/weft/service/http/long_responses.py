"""Answers that last: server-sent events, each with a place among the connections that a tenant may have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.errors import QuotaExceeded
from weft.service.http.errors import answer

EVENTS = "text/event-stream"
_HEADERS = {"X-Accel-Buffering": "no"}
"""A proxy must hand every event on as it comes."""


class Lasting(StreamingResponse):
    """Events for as long as somebody reads them; the place is taken when the answer begins, and given back after it."""

    def __init__(self, events: AsyncIterator[str], take: Callable[[], Callable[[], None]]) -> None:
        super().__init__(events, media_type=EVENTS, headers=_HEADERS)
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            give_back = self._take()
        except QuotaExceeded as error:
            await answer(error)(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            give_back()
