"""`weft serve`: the service as a process, from its configuration to its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from pathlib import Path

from weft.errors import InvalidSetting
from weft.service.app import make_app
from weft.service.config import Config, read_config
from weft.service.host import EngineHost
from weft.service.listen import address_of, listen
from weft.service.logs import log_to
from weft.service.server import Server
from weft.service.service import Service
from weft.service.tenants import read_tenants

_log = logging.getLogger("weft.service")


def serve(config_path: str | Path, *, host: str | None = None, port: int | None = None) -> int:
    """Run the service until it is told to stop (SIGTERM, Ctrl-C); raises WeftError if it cannot be started."""
    config = read_config(Path(config_path), host=host, port=port)
    log_to(sys.stderr)
    return asyncio.run(_serve(config))


async def _serve(config: Config) -> int:
    listening = _listen(config.server.host, config.server.port)
    loop = asyncio.get_running_loop()
    address = address_of(config.server.host, listening)
    engine_host = EngineHost(config, address=address)
    server = Server(make_app(Service(config, engine_host, read_tenants(config))))
    engine_host.on_hopeless = lambda: loop.call_soon_threadsafe(server.stop_soon)
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, server.stop_soon)
    _log.info("service listens", extra={"address": address})
    await server.serve(sockets=[listening])
    if engine_host.hopeless is not None:
        raise engine_host.hopeless
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise InvalidSetting(
            f"address {host}:{port} cannot be had: {error.strerror}", hint="Give another with --port, or server.port."
        ) from error
