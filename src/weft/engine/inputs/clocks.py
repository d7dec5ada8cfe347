"""Decisions by this machine's clocks: which streams are idle, and which rows are too far ahead."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from weft.plan.stream import Stream
from weft.plan.time import clamp_time
from weft.plan.window import to_micros

_MICROS = 1_000_000


class Clocks:
    """When each stream last had rows by this machine's clock, where a restart counts as rows; and the current time."""

    def __init__(self) -> None:
        self._had_rows: dict[str, float] = {}

    def note(self, streams: Iterable[str]) -> None:
        """Note that these streams have rows now."""
        self._had_rows |= dict.fromkeys(streams, time.monotonic())

    def forget(self, stream: str) -> None:
        """Forget a stream that was dropped."""
        self._had_rows.pop(stream, None)

    def idle(self, streams: Mapping[str, Stream]) -> frozenset[str]:
        """Return the streams that are idle now."""
        now = time.monotonic()
        return frozenset(
            name
            for name, stream in streams.items()
            if now - self._had_rows.setdefault(name, now) > stream.idle_timeout.total_seconds()
        )

    def now(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def ahead_limits(self, streams: Mapping[str, Stream]) -> dict[str, int]:
        """Return the latest event time that is accepted now, by stream."""
        now = int(self.now() * _MICROS)
        return {
            name: clamp_time(now + to_micros(stream.max_ahead))
            for name, stream in streams.items()
            if stream.max_ahead is not None
        }
