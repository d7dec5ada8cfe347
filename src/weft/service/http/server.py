"""The HTTP server: one that lets those who follow go before it waits for requests to end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from weft.service.events.connections import Streaming

_GRACE = 5
"""Seconds that requests have to end when the service does."""
_KEEP_ALIVE = 75
"""Seconds that a connection may be silent between two requests. Many clients ask every five seconds, which is uvicorn's
own limit: their next request would now and then meet a connection that is just being closed."""


class Server(uvicorn.Server):
    """A server for an application of `make_app`; what signals mean is for the process to say."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=_GRACE,
                timeout_keep_alive=_KEEP_ALIVE,
            )
        )
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """None: uvicorn would end the process by the signal that it was told to stop with."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End connections that last, then as usual."""
        streaming: Streaming | None = getattr(self._app.state, "streaming", None)
        if streaming is not None:
            streaming.stop()
        await super().shutdown(sockets)

    def stop_soon(self) -> None:
        """Stop; at once if it was told so before."""
        self.force_exit = self.should_exit
        self.should_exit = True
