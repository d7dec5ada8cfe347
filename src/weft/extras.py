"""Imports of optional packages. A missing package raises an error that names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import MissingExtra


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Guard imports of the packages of extra `name`; raise MissingExtra if one of them is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "weft"):  # a wrong import in weft itself: no extra would fix it
            raise
        raise MissingExtra(
            f'Python package "{package}" is not installed', hint=f'Install it with: pip install "weft-streams[{name}]"'
        ) from error
