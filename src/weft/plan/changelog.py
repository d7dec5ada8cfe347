"""Queries in time: what the changelog says about each query, and which changes take effect together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from weft.plan.query import BoundQuery
from weft.plan.strategy import Strategy

QueryId = NewType("QueryId", str)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """What the changelog says about a query: everything needed to have it again after a restart."""

    id: QueryId
    name: str
    sql: str
    slot: int
    created: int
    """First batch whose rows it sees."""
    start: int | None
    """Event time in microseconds from which its result is complete; None = from the beginning."""
    route: tuple[int, ...] = ()
    """Positions of the join keys its rows are partitioned by: fixed for life, so that its old rows stay in reach."""
    ended: int | None = None
    """First batch whose rows it no longer sees."""
    error: str = ""
    stores: tuple[str, ...] = ()
    """Ids of the stores its rows and cells are in, as they were when it was created."""
    lanes: str = ""
    """An id of what its cells count, sum and so on."""
    source: str = ""
    """Under which id the result log has its rows."""
    streams: tuple[str, ...] = ()
    """Streams that it reads."""
    resumed: int | None = None
    """Event time from which it goes on, if a watermark was set back: windows that begin earlier are not reported."""

    @property
    def windows_from(self) -> int | None:
        """Where its first window may begin; None = anywhere."""
        return max((time for time in (self.start, self.resumed) if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """A query in effect: its record, its bound form, and how it runs."""

    record: QueryRecord
    query: BoundQuery
    strategy: Strategy

    @property
    def slot(self) -> int:
        """Position in every query-set."""
        return self.record.slot


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that ends before `batch`, since its own expression failed on a row of it."""

    query: QueryId
    batch: int
    error: str


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic entry of a changelog: queries created and dropped together, or watermarks set back."""

    batch: int
    created: tuple[QueryRecord, ...]
    dropped: tuple[QueryId, ...]
    failed: tuple[Failure, ...] = ()
    """Of those dropped, the ones whose rows could not be read."""
    declared: tuple[str, ...] = ()
    """Streams that were declared; their declarations have files of their own."""
    watermarks: tuple[tuple[str, int], ...] = ()
    """Streams whose watermark is set back, and to which event time."""
    sinks: tuple[QueryId, ...] = ()
    """Queries that have a sink from here on; how far each has got is in a file of its own."""
