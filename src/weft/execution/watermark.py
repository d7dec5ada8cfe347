"""Watermarks: how far event time has advanced on a stream, and on a set of streams whose windows close together."""

from __future__ import annotations

from collections.abc import Mapping, Set

from weft.plan.idle_streams import Streams
from weft.plan.stream import Stream
from weft.plan.time import clamp_time
from weft.plan.window import to_micros


def advance(streams: Mapping[str, Stream], watermarks: Mapping[str, int], newest: Mapping[str, int]) -> dict[str, int]:
    """Return the watermarks after rows with these newest event times (by stream) have arrived."""
    advanced = dict(watermarks)
    for name, time in newest.items():
        mark = clamp_time(time - to_micros(streams[name].lateness))
        advanced[name] = max(mark, advanced.get(name, mark))
    return advanced


def closed_until(
    names: Streams,
    watermarks: Mapping[str, int],
    *,
    idle: Set[str],
    before: int | None,
    lateness: Mapping[str, int] | None = None,
) -> int | None:
    """Return the event time up to which windows over these streams are closed and their joins are complete.

    The result is the least of the streams' watermarks, but never less than `before`, and it is `before` while a stream
    that is not idle has no watermark. An idle stream counts as if its newest event time were that of the slowest other
    stream, because its rows may still be as late as its own `lateness` (in microseconds, by stream) admits.
    """
    active = [name for name in names if name not in idle] or list(names)
    if any(name not in watermarks for name in active):
        return before
    bounds = dict.fromkeys(names, 0) | dict(lateness or {})
    newest = min(watermarks[name] + bounds[name] for name in active)
    least = min(watermarks[name] if name in active else newest - bounds[name] for name in names)
    return clamp_time(least) if before is None else max(before, clamp_time(least))
