"""Answers that last, as a proxy sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from weft.service.http.long_responses import EVENTS, EventStreamResponse


async def events() -> AsyncIterator[str]:
    """One event."""
    yield "data: 1\n\n"


def test_a_proxy_is_told_to_hand_on_every_event_at_once() -> None:
    """Otherwise it keeps events back until its buffer is full, and who follows sees nothing for minutes."""
    headers = EventStreamResponse(events(), lambda: lambda: None).headers
    assert headers["X-Accel-Buffering"] == "no"
    assert headers["Content-Type"].startswith(EVENTS)
