"""Paths as users write them."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def has_scheme(path: str) -> bool:
    """Whether a path is an address such as `s3a://bucket/x` or `file:/x`, which is no path of this machine."""
    return _SCHEME.match(path) is not None
