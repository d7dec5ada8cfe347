"""Which streams have had no rows for so long that windows do not wait for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from weft.plan.stream import Stream


class Idleness:
    """When each stream last had rows, on this machine's clock; a restart counts as rows."""

    def __init__(self) -> None:
        self._had_rows: dict[str, float] = {}

    def note(self, streams: Iterable[str]) -> None:
        """These streams have rows now."""
        self._had_rows |= dict.fromkeys(streams, time.monotonic())

    def idle(self, streams: Mapping[str, Stream]) -> frozenset[str]:
        """The streams that are idle now."""
        now = time.monotonic()
        return frozenset(
            name
            for name, stream in streams.items()
            if now - self._had_rows.setdefault(name, now) > stream.idle_timeout.total_seconds()
        )
