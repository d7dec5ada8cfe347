"""Listening sockets and their addresses."""

from __future__ import annotations

import socket

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
"""Wildcard addresses, with the loopback addresses at which this machine reaches them."""
_WAITING = 1024
ADDRESS_FILE = "service.json"
"""File in the state directory with the address of the running service, for commands that know only the path."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port` (0: any free port). Raises OSError if it cannot."""
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
    """Return the URL at which this machine reaches a listening socket."""
    reachable = _EVERYWHERE.get(host, host)
    return f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{listening.getsockname()[1]}"
