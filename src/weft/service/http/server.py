"""The HTTP server. At shutdown it ends long connections before it waits for requests to finish."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from weft.service.events.connections import Connections

_GRACE = 5
"""Seconds that running requests have to finish at shutdown."""
_KEEP_ALIVE = 75
"""Seconds that a connection may be idle between two requests. Many clients ask every five seconds, which is uvicorn's
default limit: with it, their next request would sometimes meet a connection that is being closed."""


class Server(uvicorn.Server):
    """A server for an application of `make_app`. It leaves signals to the process."""

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
        """Capture no signals: after shutdown, uvicorn would end the process with the signal that stopped the server."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End long connections, then shut down as usual."""
        streaming: Connections | None = getattr(self._app.state, "streaming", None)
        if streaming is not None:
            streaming.stop()
        await super().shutdown(sockets)

    def stop_soon(self) -> None:
        """Stop the server; a second call stops it without waiting for requests."""
        self.force_exit = self.should_exit
        self.should_exit = True
