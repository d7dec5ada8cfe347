"""Tells coroutines that a batch was committed, from whichever thread it was."""

from __future__ import annotations

import asyncio


class Bell:
    """Rung by any thread; coroutines of one event loop wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self.rung = 0
        """How often: whoever looks at it before looking for news misses none."""

    def ring(self) -> None:
        """Something has happened; harmless when the loop has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self.rung += 1
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self, rung: int, seconds: float) -> bool:
        """Until it has rung more often than `rung`; False if the time is up before."""
        if self.rung != rung:
            return True
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return False
        return True
