"""How far event time has come for a set of streams: what ends windows."""

from __future__ import annotations

from collections.abc import Mapping, Set

from weft.plan.idle_streams import Streams
from weft.plan.stream import Stream
from weft.plan.time import clamp_time
from weft.plan.window import to_micros


def advance(streams: Mapping[str, Stream], watermarks: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Watermarks after rows with these newest event times came."""
    found = dict(watermarks)
    for name, time in newest.items():
        mark = clamp_time(time - to_micros(streams[name].lateness))
        found[name] = max(mark, found.get(name, mark))
    return found


def closed_until(
    names: Streams,
    watermarks: Mapping[str, int],
    *,
    idle: Set[str],
    before: int | None,
    lateness: Mapping[str, int] | None = None,
) -> int | None:
    """Up to where windows over these streams are ended, and joins have met everything: the least of their watermarks;
    never less than `before`. None when nothing can be said yet.

    An idle stream counts as if it had come as far as the slowest of the others: what comes of it may still be as late
    as its own `lateness` (in microseconds, by stream) says.
    """
    active = [name for name in names if name not in idle] or list(names)
    if any(name not in watermarks for name in active):
        return before
    bounds = dict.fromkeys(names, 0) | dict(lateness or {})
    newest = min(watermarks[name] + bounds[name] for name in active)
    least = min(watermarks[name] if name in active else newest - bounds[name] for name in names)
    return clamp_time(least) if before is None else max(before, clamp_time(least))
