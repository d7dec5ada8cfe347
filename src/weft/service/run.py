"""`weft serve`: the service as a process."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path

from weft.errors import InvalidSetting
from weft.service.config import Config, read_config, seconds_of
from weft.service.host import EngineHost
from weft.service.http.app import make_app
from weft.service.http.logs import log_to
from weft.service.http.server import Server
from weft.service.http.sockets import address_of, listen
from weft.service.service import Service
from weft.service.shutdown import ExitDeadline
from weft.service.tenancy.secrets import Secrets, references
from weft.service.tenancy.tenants import read_tenants
from weft.spark.freed_memory import limit_fragmentation
from weft.spark.java_process import kill_java

_log = logging.getLogger("weft.service")
_LAST_SECONDS = 10.0
"""Seconds for threads that still run when the engine has stopped. Nothing depends on their work."""


def serve(config_path: str | Path, *, host: str | None = None, port: int | None = None) -> int:
    """Run the service until SIGTERM or Ctrl-C, and return its exit status; raises WeftError if it cannot run.

    A service that does not stop within `server.stop_timeout` is ended, whatever still runs in the process.
    """
    config = read_config(Path(config_path), host=host, port=port)
    log_to(sys.stderr)
    limit_fragmentation()
    return asyncio.run(_serve(config))


async def _serve(config: Config) -> int:
    listening = _listen(config.server.host, config.server.port)
    loop = asyncio.get_running_loop()
    address = address_of(config.server.host, listening)
    tenants = read_tenants(config)
    engine_host = EngineHost(config, address=address, secrets=_secrets(config))
    server = Server(make_app(Service(config, engine_host, tenants)))
    ending = ExitDeadline(last=kill_java)

    def stop() -> None:
        seconds = seconds_of(config.server.stop_timeout)
        ending.within(seconds, reason=f"it did not stop within {seconds:g} s (server.stop_timeout)")
        server.stop_soon()

    engine_host.on_fatal = lambda: loop.call_soon_threadsafe(stop)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    _log.info("service listens", extra={"address": address})
    await server.serve(sockets=[listening])
    ending.within(_LAST_SECONDS, status=0 if engine_host.fatal_error is None else 1)
    if engine_host.fatal_error is not None:
        raise engine_host.fatal_error
    return 0


def _secrets(config: Config) -> Secrets:
    """Take the variables that streams may refer to out of the environment, which Spark's processes inherit."""
    named = [reference for stream in config.streams for reference in references(stream.options)]
    return Secrets.take([*named, *config.server.secrets])


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise InvalidSetting(
            f"address {host}:{port} cannot be had: {error.strerror}", hint="Give another with --port, or server.port."
        ) from error
