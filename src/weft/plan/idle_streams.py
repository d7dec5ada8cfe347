"""Queries over several streams do not wait for one that is idle: for which of its rows they are then too late."""

from __future__ import annotations

from weft.plan.changelog import LiveQuery
from weft.plan.query import BoundQuery
from weft.plan.strategy import ProbeAggregate, ProbeJoin

Streams = tuple[str, ...]
"""Names of streams, sorted."""


def streams_of(query: BoundQuery) -> Streams:
    """The streams that a query reads."""
    return tuple(sorted({relation.stream for relation in query.relations}))


def gives_way(live: LiveQuery, stream: str) -> bool:
    """Whether a join frees what only rows of a stream could still meet once the others have passed it.

    A row of it that comes back is then too late for what came before. Probe trees cannot tell what came before from
    what comes after, so there it would be lost for good: they wait for a stream whose rows are kept without limit.
    """
    query = live.query
    if len(streams_of(query)) < 2:
        return False
    every = range(len(query.relations))
    mine = [number for number in every if query.relations[number].stream == stream]
    is_probed = isinstance(live.strategy, ProbeJoin | ProbeAggregate)
    if is_probed and not all(_is_limited(query, number) for number in mine):
        return False
    return any(_is_limited(query, number) for number in every if mine != [number])


def _is_limited(query: BoundQuery, relation: int) -> bool:
    """Whether rows of a relation are freed some day."""
    others = (other for other in range(len(query.relations)) if other != relation)
    return all(query.reach_back(relation, other) is not None for other in others)
