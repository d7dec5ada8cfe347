"""Which joins do not wait for an idle stream (see `docs/decisions/0014-joins-do-not-wait-for-idle-streams.md`)."""

from __future__ import annotations

from weft.plan.changelog import LiveQuery
from weft.plan.query import BoundQuery
from weft.plan.strategy import ProbeAggregate, ProbeJoin

Streams = tuple[str, ...]
"""Names of streams, sorted."""


def streams_of(query: BoundQuery) -> Streams:
    """Return the streams that a query reads."""
    return tuple(sorted({relation.stream for relation in query.relations}))


def frees_despite_idle(live: LiveQuery, stream: str) -> bool:
    """Return whether a join frees stored rows that only rows of `stream` could still meet, if `stream` is idle.

    Rows of `stream` that arrive afterwards are too late for the freed rows. An equi-join keeps them for rows that come
    later. A probe tree cannot, and drops them; it therefore waits for a stream whose rows it would keep without limit.
    """
    query = live.query
    if len(streams_of(query)) < 2:
        return False
    all_relations = range(len(query.relations))
    of_stream = [number for number in all_relations if query.relations[number].stream == stream]
    is_probed = isinstance(live.strategy, ProbeJoin | ProbeAggregate)
    if is_probed and not all(_is_limited(query, number) for number in of_stream):
        return False
    return any(_is_limited(query, number) for number in all_relations if of_stream != [number])


def _is_limited(query: BoundQuery, relation: int) -> bool:
    """Return whether stored rows of a relation are freed at some time."""
    others = (other for other in range(len(query.relations)) if other != relation)
    return all(query.reach_back(relation, other) is not None for other in others)
