"""Sockets to listen on, and where others find them."""

from __future__ import annotations

import socket

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
_WAITING = 1024
ADDRESS_FILE = "service.json"
"""In the state directory while a service runs: where it is reached, for commands that only know the path."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises OSError where the address cannot be had. Port 0 is any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_WAITING)
    except OSError:
        listening.close()
        raise
    return listening


def address_of(host: str, listening: socket.socket) -> str:
    """Where this machine reaches it."""
    near = _EVERYWHERE.get(host, host)
    return f"http://{f'[{near}]' if ':' in near else near}:{listening.getsockname()[1]}"
