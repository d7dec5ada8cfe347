"""Result rows per query, counted for all queries together as batches are committed."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.engine.results.counts import count_rows
from weft.execution.results.read import Reading
from weft.storage.journal import Manifest

_MOST_WAITING = 30
_RECENT = 5
"""Batches over which rates are taken."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A query's result rows: in all, and per second lately."""

    rows: int
    per_second: float


class RowCounter:
    """Counts batch by batch, within the time it is given."""

    def __init__(self) -> None:
        self._waiting: deque[Manifest] = deque()
        self._rows: Counter[str] = Counter()
        self._recent: deque[tuple[float, Counter[str]]] = deque(maxlen=_RECENT + 1)
        self.gave_up = False

    def of(self, name: str) -> Counted | None:
        """What is known of a query; None if counting could not keep up with the batches."""
        if self.gave_up:
            return None
        recent = list(self._recent)
        seconds = recent[-1][0] - recent[0][0] if recent else 0.0
        lately = sum(counts[name] for _, counts in recent[1:])
        return Counted(self._rows[name], lately / seconds if seconds else 0.0)

    @property
    def total(self) -> int:
        """Rows of all queries that were counted."""
        return self._rows.total()

    @property
    def behind(self) -> bool:
        """Whether batches wait to be counted."""
        return bool(self._waiting)

    def add(self, manifests: Iterable[Manifest]) -> None:
        """Batches were committed."""
        self._waiting.extend(manifests)
        if len(self._waiting) > _MOST_WAITING:
            self.gave_up = True
            self._waiting.clear()

    def count(self, readings: Mapping[str, Reading], *, seconds: float) -> None:
        """Count the rows of these queries in the batches that wait, oldest first, until the time is up."""
        deadline = time.monotonic() + seconds
        while self._waiting and not self.gave_up and time.monotonic() < deadline:
            manifest = self._waiting.popleft()
            counts = count_rows(manifest, readings)
            self._rows.update(counts)
            self._recent.append((manifest.at, counts))
