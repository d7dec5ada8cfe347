"""Optional parts of weft: a missing package is reported with the extra that installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.errors import MissingExtra


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import packages of the extra `name`. Raises MissingExtra if one of them is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "weft"):  # the import itself is wrong, and no extra would mend it
            raise
        raise MissingExtra(
            f'Python package "{package}" is not installed', hint=f'Install it with: pip install "weft-streams[{name}]"'
        ) from error
