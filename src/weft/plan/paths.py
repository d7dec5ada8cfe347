"""Checks of paths that users write."""

from __future__ import annotations

import re

from weft.errors import InvalidSetting

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def has_scheme(path: str) -> bool:
    """Return whether a path is an address such as `s3a://bucket/x` or `file:/x` instead of a local path."""
    return _SCHEME.match(path) is not None


def local_path(path: str, what: str, *, hint: str) -> str:
    """Return the path unchanged if it is local, else raise InvalidSetting; `what` names the path in the message.

    An address would otherwise become a folder in the current directory, even after `Path` removed one of its slashes.
    """
    if has_scheme(path):
        raise InvalidSetting(f'{what} "{path}" is not a local path', hint=hint)
    return path
