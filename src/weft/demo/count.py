"""Result rows per query, counted a few queries at a time: to read everybody's every second would cost too much."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from weft.engine import Query
from weft.runtime.read import read_chunk


@dataclass(frozen=True, slots=True)
class Rows:
    """Result rows of a query, committed by batches before `batch`; counted at `at` (monotonic seconds).

    `per_second` is since the count before; None at the first.
    """

    count: int
    batch: int
    at: float
    per_second: float | None


class RowCounter:
    """Remembers how far each query is counted and goes on from there."""

    def __init__(self) -> None:
        self._rows: dict[str, Rows] = {}

    def of(self, name: str) -> Rows | None:
        """What is known of a query."""
        return self._rows.get(name)

    def count(self, queries: Sequence[Query], next_batch: int, *, seconds: float) -> None:
        """Bring some of the queries up to `next_batch`, those with the oldest count first, until the time is up."""
        deadline = time.monotonic() + seconds
        for query in sorted(queries, key=self._counted_to):
            if self._counted_to(query) >= next_batch:
                continue
            self._rows[query.name] = self._counted(query, next_batch)
            if time.monotonic() >= deadline:
                return

    def _counted_to(self, query: Query) -> int:
        known = self._rows.get(query.name)
        return -1 if known is None else known.batch

    def _counted(self, query: Query, next_batch: int) -> Rows:
        now, known = time.monotonic(), self._rows.get(query.name)
        reading, chunks = query.read(0 if known is None else known.batch, next_batch)
        fresh = sum(read_chunk(reading, chunk).num_rows for chunk in chunks)
        if known is None:
            return Rows(fresh, next_batch, now, None)
        return Rows(known.count + fresh, next_batch, now, fresh / (now - known.at))
