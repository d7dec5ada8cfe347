"""Reading of what is known about a query, without doing anything slow under the core's lock.

The record of a query that ended long ago is in a file whose lock may be held during a flush to disk, and its text is
bound again on demand. Batches and requests wait for the core's lock, so neither happens under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.plan.changelog import QueryId, QueryRecord
from weft.plan.query import BoundQuery

if TYPE_CHECKING:
    from weft.engine.ledger import Ledger


def record_of(core: Ledger, query: QueryId) -> QueryRecord | None:
    """Return the record of a query, live or ended, or None if it has none (yet). Do not call it under the lock."""
    records = core.roster.records
    with core.lock:  # for a moment, an ending query is neither among the live nor the ended
        record = records.here(query)
    return records.on_disk(query) if record is None else record


def find_query(core: Ledger, name: str) -> QueryId | None:
    """Return the live or pending query with a name, else the latest that had it. Do not call it under the lock."""
    with core.lock:
        query = core.roster.find_here(name)
    record = core.roster.records.latest_on_disk(name) if query is None else None
    return query if record is None else record.id


def page_of(
    core: Ledger, prefix: str, *, after: int, limit: int, live: bool = True, latest: bool = False
) -> list[QueryRecord]:
    """Return the first (or `latest`) records after number `after` of ended and, if `live`, live queries whose names
    begin with `prefix`. Do not call it under the lock."""
    records = core.roster.records
    with core.lock:
        here = records.in_memory(live=live)
    return records.page(prefix, here, after=after, limit=limit, latest=latest)


@contextmanager
def locked_record(core: Ledger, query: QueryId) -> Iterator[QueryRecord | None]:
    """Hold the core's lock and yield a query's record as it is under the lock; one on disk is read before."""
    before = record_of(core, query)
    with core.lock:
        yield core.roster.records.here(query) or before


def bound_of(core: Ledger, query: QueryId) -> BoundQuery:
    """Return the bound form of a query, live or ended. Do not call it under the lock.

    Raises UnknownQuery if it is not on record, or the error of a text that this release refuses.
    """
    roster = core.roster
    with core.lock:
        bound = roster.bound[query]
    if bound is not None:
        return bound
    record = record_of(core, query)
    return roster.bound.read(roster.record(query) if record is None else record)
