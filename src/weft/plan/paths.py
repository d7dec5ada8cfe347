"""Paths as users write them."""

from __future__ import annotations

import re

from weft.errors import InvalidSetting

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def has_scheme(path: str) -> bool:
    """Whether a path is an address such as `s3a://bucket/x` or `file:/x`, which is no path of this machine."""
    return _SCHEME.match(path) is not None


def local_path(path: str, what: str, *, hint: str) -> str:
    """A path of this machine, as it was given. An address is refused: it would become a folder below the current one,
    also if it was made a `Path` before, of which one slash is left. `what` says what it is the path of."""
    if has_scheme(path):
        raise InvalidSetting(f'{what} "{path}" is not a local path', hint=hint)
    return path
