"""How far event time has come for a set of streams: what ends windows."""

from __future__ import annotations

from collections.abc import Mapping, Set

from weft.plan.stream import Stream
from weft.plan.window import to_micros

Streams = tuple[str, ...]
"""Names of streams, sorted."""


def advance(streams: Mapping[str, Stream], watermarks: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Watermarks after rows with these newest event times came."""
    found = dict(watermarks)
    for name, time in newest.items():
        mark = time - to_micros(streams[name].lateness)
        found[name] = max(mark, found.get(name, mark))
    return found


def closed_until(names: Streams, watermarks: Mapping[str, int], *, idle: Set[str], before: int | None) -> int | None:
    """Up to where windows over these streams are ended: the least of their watermarks, without idle streams; never
    less than `before`. None when nothing can be said yet."""
    active = [name for name in names if name not in idle] or list(names)
    if any(name not in watermarks for name in active):
        return before
    least = min(watermarks[name] for name in active)
    return least if before is None else max(before, least)
