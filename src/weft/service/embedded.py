"""A dashboard for a program that runs an engine itself: the same service, in a thread beside it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from weft.engine import Engine
from weft.service.config import Config, EngineSection
from weft.service.host import Visitor
from weft.service.http.app import make_app
from weft.service.http.server import Server
from weft.service.http.sockets import address_of, listen
from weft.service.service import Service
from weft.service.tenancy.tenants import Tenants

PORT = 8080
_LOCAL = "127.0.0.1"
_PATIENCE = 10.0


@contextmanager
def dashboard(engine: Engine, port: int = PORT) -> Iterator[str]:
    """Serve an engine's dashboard on this machine; its address. Another port is taken if this one is in use."""
    listening = _listen(port)
    config = Config(engine=EngineSection(path=engine.core.directory.root))
    app = make_app(Service(config, Visitor(engine), Tenants({}, [])))
    server = Server(app)
    thread = threading.Thread(
        target=lambda: asyncio.run(server.serve(sockets=[listening])), name="weft-dashboard", daemon=True
    )
    thread.start()
    try:
        yield address_of(_LOCAL, listening)
    finally:
        server.stop_soon()
        thread.join(_PATIENCE)


def _listen(port: int) -> socket.socket:
    try:
        return listen(_LOCAL, port)
    except OSError:
        return listen(_LOCAL, 0)
