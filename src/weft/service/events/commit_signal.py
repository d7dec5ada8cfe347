"""A signal from any thread to the coroutines of an event loop: a batch was committed, or the state changed."""

from __future__ import annotations

import asyncio


class CommitSignal:
    """A signal that any thread may send and coroutines of one event loop wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self.rung = 0
        """The number of signals so far. A coroutine that reads the number before it looks for news misses none."""

    def ring(self) -> None:
        """Send the signal; does nothing if the loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self.rung += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, rung: int, seconds: float) -> bool:
        """Wait for a signal after number `rung`; return False if there is none within `seconds`."""
        if self.rung != rung:
            return True
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return True
