"""A dashboard for a program that runs an engine itself: the same service, in a thread of that program."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.engine import Engine
from weft.plan.stream import Stream
from weft.service.config import Config, EngineSection, StreamSpec
from weft.service.health import Standing, State, reason_of
from weft.service.http.app import make_app
from weft.service.http.server import Server
from weft.service.http.sockets import address_of, listen
from weft.service.observer import observe
from weft.service.service import Service
from weft.service.streams import declare
from weft.service.tenancy.secrets import Secrets
from weft.service.tenancy.tenants import Tenants

PORT = 8080
_LOCAL = "127.0.0.1"
_PATIENCE = 10.0


class EmbeddedHost:
    """The host of an engine that the user's program runs; the service only shows it."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.catalog = engine, engine.catalog
        self.on_batch: Callable[[], None] = lambda: None
        self.observer = observe(engine, lambda: self.on_batch())  # noqa: PLW0108 set later

    @property
    def standing(self) -> Standing:
        """The health of the engine, which the program may run batch by batch."""
        health, error = self.engine.health(), self.engine.error
        stopped = State.RUNNING if error is None else State.FAILED
        state = {"failing": State.FAILING, "stuck": State.STUCK, "stopped": stopped}.get(health.state, State.RUNNING)
        reason = None if state is State.RUNNING else error or reason_of(self.engine, health)
        return Standing(state, reason, health.failures, failing_streams=health.failing_streams)

    def add_stream(self, spec: StreamSpec) -> Stream:
        """Declare a stream."""
        return declare(self.engine, spec, Secrets())

    def drop_stream(self, name: str, *, cascade: bool) -> None:
        """Remove a stream, and with `cascade` the queries that read it."""
        self.engine.drop_stream(name, cascade=cascade)

    def start(self) -> None:
        """Start to follow the engine."""
        self.observer.start()

    def stop(self) -> None:
        """Stop following the engine."""
        self.observer.stop()


@contextmanager
def dashboard(engine: Engine, port: int = PORT) -> Iterator[str]:
    """Serve an engine's dashboard on this machine and yield its address; uses another port if `port` is in use."""
    listening = _listen(port)
    config = Config(engine=EngineSection(path=engine.catalog.directory.root))
    app = make_app(Service(config, EmbeddedHost(engine), Tenants({}, [])))
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
