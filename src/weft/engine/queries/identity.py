"""The names of a query's data on disk: fixed in its record when it is created, and checked when it is read back.

Every process binds query texts again, so a query that a release forbids does not go on. If this release would look for
a query's rows under other names than they were written under, the query is not run: it would silently lose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import UnsupportedQuery
from weft.plan.changelog import QueryRecord
from weft.plan.key import content_id
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.planner.strategy import choose_strategy
from weft.sql import bind


def identified(record: QueryRecord, query: BoundQuery) -> QueryRecord:
    """Return a new query's record with the ids of its data on disk."""
    calls = () if query.aggregation is None else query.aggregation.calls
    strategy = choose_strategy(query, record.route)
    return replace(
        record,
        stores=strategy.stores,
        lanes=content_id(*(call.id for call in calls)) if calls else "",
        source=strategy.result,
    )


def _ids(record: QueryRecord) -> tuple[str, ...]:
    return (*record.stores, record.lanes, record.source)


def bind_again(record: QueryRecord, streams: Mapping[str, Stream]) -> BoundQuery:
    """Return the bound form of a recorded query; raise a WeftError if this release refuses it, or uses other names
    for its data on disk."""
    query = bind(record.sql, streams)
    now = identified(record, query)
    if _ids(now) != _ids(record):
        raise UnsupportedQuery(
            f'query "{record.name}" has rows on disk under names that this release of weft does not use',
            detail=f"They are {', '.join(_ids(record))}; it would look for {', '.join(_ids(now))}.",
            hint="Create it again, or run the release that created it.",
        )
    return query
