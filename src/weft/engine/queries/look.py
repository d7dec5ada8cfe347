"""What is known of one query, for those who read: nothing slow is done under the core's lock.

The record of a query that has ended long ago is in a file, whose lock may be held through a flush to disk, and its text
is bound again when somebody asks. Batches and requests wait for the core's lock, so neither happens under it.
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
    """The record of a query, live or ended; None if there is none (yet). Not to be asked for under the lock."""
    records = core.roster.records
    with core.lock:  # a query that ends is for a moment neither among the live nor among the ended
        found = records.here(query)
    return records.on_disk(query) if found is None else found


def find_query(core: Ledger, name: str) -> QueryId | None:
    """The query of a name: the live or pending one, else the latest that had it. Not to be asked for under the lock."""
    with core.lock:
        found = core.roster.find_here(name)
    record = core.roster.records.latest_on_disk(name) if found is None else None
    return found if record is None else record.id


def page_of(
    core: Ledger, prefix: str, *, after: int, limit: int, live: bool = True, latest: bool = False
) -> list[QueryRecord]:
    """Records of queries whose names begin with `prefix`, ended or (if asked for) live, behind number `after`: the
    first of them, or the latest. Not to be asked for under the lock."""
    records = core.roster.records
    with core.lock:
        here = records.in_memory(live=live)
    return records.page(prefix, here, after=after, limit=limit, latest=latest)


@contextmanager
def looking(core: Ledger, query: QueryId) -> Iterator[QueryRecord | None]:
    """The core's lock, and the record of a query as it is under it: one that is on disk is read before."""
    before = record_of(core, query)
    with core.lock:
        yield core.roster.records.here(query) or before


def bound_of(core: Ledger, query: QueryId) -> BoundQuery:
    """The bound form of a query, live or ended; raises UnknownQuery if it is not on record, and whatever is wrong with
    a text that this release does not take any more. Not to be asked for under the lock."""
    roster = core.roster
    with core.lock:
        found = roster.bound[query]
    if found is not None:
        return found
    record = record_of(core, query)
    return roster.bound.read(roster.record(query) if record is None else record)
