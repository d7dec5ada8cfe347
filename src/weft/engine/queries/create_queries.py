"""Create queries together with their sinks: after a crash both exist, or neither."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weft.engine.queries.requests import Request
from weft.engine.sinks.sinks import Sink
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog
    from weft.engine.query import Query


def create_queries(
    catalog: Catalog, queries: Sequence[tuple[str | None, BoundQuery]], sink: Callable[[Query], Sink | None]
) -> Request:
    """Request queries, (name or None, bound query), in one changelog; `sink` chooses the sink of each.

    The note of a sink is durable before its query is in the changelog. A note without a query is removed at the next
    start, so a crash at any point leaves both or neither.
    """
    ids: list[QueryId] = []

    def attach_sinks(request: Request) -> None:
        ids.extend(query for query, _, _ in request.created)
        for query in map(catalog.query_by_id, ids):
            chosen = sink(query)
            if chosen is not None:
                catalog.deliveries.begin(query, chosen)
                request.sinks.add(query.id)

    try:
        return catalog.core.submit(create=queries, prepare=attach_sinks)
    except BaseException:
        catalog.deliveries.withdraw(ids)
        raise
