"""Long responses: server-sent events, which count against the connections that a tenant may have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.errors import QuotaExceeded
from weft.service.http.errors import answer

EVENTS = "text/event-stream"
_HEADERS = {"X-Accel-Buffering": "no"}
"""Tells proxies to forward every event at once."""


class EventStreamResponse(StreamingResponse):
    """A response of server-sent events, which takes a place when it begins and gives the place back when it ends."""

    def __init__(self, events: AsyncIterator[str], take: Callable[[], Callable[[], None]]) -> None:
        super().__init__(events, media_type=EVENTS, headers=_HEADERS)
        self._take = take

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events, or an error if no place is free."""
        try:
            give_back = self._take()
        except QuotaExceeded as error:
            await answer(error)(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            give_back()
