"""The changelog: the durable record of each query, and the changes that take effect together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NewType

from weft.plan.key import StoreId
from weft.plan.query import BoundQuery
from weft.plan.strategy import Strategy

QueryId = NewType("QueryId", str)


@dataclass(frozen=True, slots=True)
class QueryRecord:
    """The changelog's record of a query: everything that a restart needs to restore the query."""

    id: QueryId
    name: str
    sql: str
    slot: int
    created: int
    """The first batch whose rows the query sees."""
    start: int | None
    """The event time in microseconds from which the result is complete; None means from the beginning."""
    route: tuple[int, ...] = ()
    """Positions of the join keys that partition the query's rows. They never change, so old rows stay reachable."""
    ended: int | None = None
    """The first batch whose rows the query no longer sees."""
    error: str = ""
    stores: tuple[str, ...] = ()
    """Ids of the stores of the query's rows and cells, as they were when the query was created."""
    lanes: str = ""
    """An id of the query's aggregate calls; empty without an aggregation."""
    source: str = ""
    """The id of the query's rows in the result log."""
    streams: tuple[str, ...] = ()
    """The streams that the query reads."""
    resumed: int | None = None
    """The event time from which the query continues if a watermark was set back; windows before are not reported."""

    @property
    def windows_from(self) -> int | None:
        """The earliest start of a reported window; None means any."""
        return max((time for time in (self.start, self.resumed) if time is not None), default=None)


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """A query in effect: its record, its bound form and its strategy."""

    record: QueryRecord
    query: BoundQuery
    strategy: Strategy

    @property
    def slot(self) -> int:
        """The query's position in every query-set."""
        return self.record.slot

    @property
    def stores(self) -> tuple[StoreId, ...]:
        """The stores of the query as its record names them: this release might name what is on disk differently."""
        return tuple(map(StoreId, self.record.stores)) or self.strategy.stores


@dataclass(frozen=True, slots=True)
class Failure:
    """A query that ends before `batch`, because its own expression failed on a row of that batch."""

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
    """Queries that failed: dropped by this change, or ended before and now recorded with an earlier end."""
    declared: tuple[str, ...] = ()
    """The streams that were declared. The declarations themselves are in separate files."""
    watermarks: tuple[tuple[str, int], ...] = ()
    """Streams whose watermark is set back, each with its new event time."""
    sinks: tuple[QueryId, ...] = ()
    """Queries that have a sink from this change on. The progress of each sink is in a separate file."""
