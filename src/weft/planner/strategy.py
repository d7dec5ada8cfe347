"""The choice of a query's strategy by the shape of its joins, windows and groups."""

from __future__ import annotations

from collections.abc import Iterable, Set

from weft.plan.changelog import LiveQuery, QueryRecord
from weft.plan.identity import identity
from weft.plan.key import Index, content_id, is_exact, key_text
from weft.plan.probe_tree import TIME_ROUTE, inputs_of
from weft.plan.query import BoundQuery, KeyPair
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    SlicedRelation,
    StoredRelation,
    Strategy,
)
from weft.planner.join_aggregates import over_combinations
from weft.planner.joins.normal_form import source_of
from weft.sql.names.connection import common_key

RouteEquality = tuple[tuple[str, int, str], ...]
"""The two joined relations (stream, role, key), sorted, so that the order in the query does not matter."""


def choose_strategy(query: BoundQuery, route: tuple[int, ...]) -> Strategy:
    """Return a query's strategy; `route` has the positions of the join keys that partition its rows."""
    if len(query.relations) == 1:
        return _over_one(query)
    if not _is_equi_join(query):
        return _over_many(query)
    if query.aggregation is not None:
        left, right = (_sliced(query, number) for number in (0, 1))
        return FactoredAggregate((left, right))
    left_rows, right_rows = _stored_by_key(query, route)
    if query.session is not None:
        return SessionJoin((left_rows, right_rows))
    return EquiJoin((left_rows, right_rows))


def live_query(record: QueryRecord, query: BoundQuery) -> LiveQuery:
    """Return a live query with the strategy that its record implies."""
    return LiveQuery(record, query, choose_strategy(query, record.route))


def choose_route(query: BoundQuery, routes: Set[RouteEquality]) -> tuple[int, ...]:
    """Return the positions of the join keys that partition a new query's rows: the first in `routes`, else all."""
    if len(query.relations) != 2 or not _is_equi_join(query):
        return ()
    shared = (position for position, pair in enumerate(query.keys) if _equality(query, pair) in routes)
    first = next(shared, None)
    return tuple(range(len(query.keys))) if first is None else (first,)


def routes_of(queries: Iterable[LiveQuery]) -> set[RouteEquality]:
    """Return the equalities that alone form the route of a live query."""
    return {
        _equality(live.query, live.query.keys[live.record.route[0]])
        for live in queries
        if len(live.record.route) == 1 and isinstance(live.strategy, EquiJoin | SessionJoin)
    }


def _is_equi_join(query: BoundQuery) -> bool:
    """Return whether only equalities join two relations, for which there are faster strategies than probe trees."""
    return len(query.relations) == 2 and not query.conditions


def _over_one(query: BoundQuery) -> Selection | SliceAggregate:
    if query.aggregation is not None:
        return SliceAggregate((_sliced(query, 0),))
    relation = query.relations[0]
    return Selection(StoredRelation(relation.stream, relation.role, (), None))


def _over_many(query: BoundQuery) -> ProbeJoin | ProbeAggregate | SessionJoin | SessionAggregate:
    if query.session is not None:
        join = SessionJoin(_stored_by_common_key(query))
        if query.aggregation is None:
            return join
        keys = tuple(key.expression for key in over_combinations(query).keys)
        result = content_id("session aggregate", join.result, key_text(keys))
        return SessionAggregate(join, (_sliced_combinations(query, result, session=True),))
    stored = tuple(StoredRelation(relation.stream, relation.role, TIME_ROUTE, None) for relation in query.relations)
    probed = ProbeJoin(stored, source_of(query))
    if query.aggregation is None:
        return probed
    return ProbeAggregate(probed, (_sliced_combinations(query, probed.result, session=False),))


def _stored_by_key(query: BoundQuery, route: tuple[int, ...]) -> tuple[StoredRelation, StoredRelation]:
    left, right = query.relations
    exact = is_exact(tuple(pair.type for pair in query.keys))
    lefts, rights = tuple(pair.left for pair in query.keys), tuple(pair.right for pair in query.keys)
    return (
        StoredRelation(left.stream, left.role, tuple(lefts[position] for position in route), Index(lefts, exact)),
        StoredRelation(right.stream, right.role, tuple(rights[position] for position in route), Index(rights, exact)),
    )


def _stored_by_common_key(query: BoundQuery) -> tuple[StoredRelation, ...]:
    """Store all relations by their common key, which is the key of sessions: one partition has a whole session."""
    common = common_key(query.keys, len(query.relations))
    assert common is not None, "the binder refuses session joins without a common key"
    exact = is_exact(common.types)
    return tuple(
        StoredRelation(relation.stream, relation.role, key, Index(key, exact))
        for relation, key in zip(query.relations, common.keys, strict=True)
    )


def _sliced(query: BoundQuery, number: int) -> SlicedRelation:
    assert query.aggregation is not None
    relation, is_join = query.relations[number], len(query.relations) == 2
    joins = tuple(pair.right if number else pair.left for pair in query.keys)
    groups = tuple(key.expression for key in query.aggregation.keys if key.relation == number)
    return SlicedRelation(
        stream=relation.stream,
        role=relation.role,
        keys=joins + groups,
        route=len(joins) if is_join else len(groups),
        joined=is_join,
        session=query.session is not None,
    )


def _sliced_combinations(query: BoundQuery, source: str, *, session: bool) -> SlicedRelation:
    first = min(inputs_of(query))
    keys = tuple(key.expression for key in over_combinations(query).keys)
    return SlicedRelation(first.stream, first.role, keys, len(keys), joined=False, session=session, source=source)


def _equality(query: BoundQuery, pair: KeyPair) -> RouteEquality:
    sides = zip(query.relations, (pair.left, pair.right), strict=True)
    return tuple(sorted((relation.stream, relation.role, identity(key)) for relation, key in sides))
