"""Bind query text: parse it, resolve its names, type its expressions and check its windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from weft.errors import InvalidWindow, QueryTooLarge, UnsupportedQuery
from weft.plan.aggregation import Aggregation
from weft.plan.query import BoundQuery, Output, Relation
from weft.plan.stream import Stream
from weft.plan.window import Session, Sliding
from weft.sql.functions.growth import check_query_size
from weft.sql.groups.calls import Calls
from weft.sql.groups.grouping import Grouping, group_by, is_aggregation
from weft.sql.groups.outputs import GroupColumns
from weft.sql.names.condition import Conditions, sort_conditions
from weft.sql.names.join import JoinTimes, check_join
from weft.sql.names.output import columns_read, select_outputs
from weft.sql.names.scope import Scope, open_scope
from weft.sql.syntax.parse import Parsed, parse
from weft.sql.syntax.scan import DEEPEST


def bind(text: str, streams: Mapping[str, Stream]) -> BoundQuery:
    """Return the bound query that `text` defines over `streams`; raise a `QueryError` if the text is not valid.

    Calls from several threads are safe: binding changes no shared state.
    """
    try:
        return _bind(text, streams)
    except RecursionError as error:
        raise QueryTooLarge(f"the query is nested too deeply (the limit is about {DEEPEST} levels)") from error


def _bind(text: str, streams: Mapping[str, Stream]) -> BoundQuery:
    parsed = parse(text)
    _check_size(parsed)
    scope = open_scope(parsed.relations, streams, parsed.using)
    aggregation: Aggregation | None = None
    notices: tuple[str, ...] = ()
    if is_aggregation(parsed):
        grouping = group_by(parsed, scope)
        scope = grouping.scope
        outputs, aggregation, notices = _aggregate(parsed, grouping)
    else:
        outputs = select_outputs(parsed.projections, scope)
    conditions = sort_conditions(parsed.conditions, scope)
    times = check_join(scope.sources, conditions) if len(scope.sources) > 1 else JoinTimes()
    _check_windows(scope, conditions, aggregation)
    window = scope.sources[0].window
    return BoundQuery(
        sql=text,
        relations=_relations(parsed, scope, conditions, aggregated=aggregation is not None),
        keys=conditions.sorted_keys(),
        outputs=outputs,
        bounds=times.bounds,
        sliding=window if isinstance(window, Sliding) else None,
        session=window if isinstance(window, Session) else None,
        aggregation=aggregation,
        notices=tuple(dict.fromkeys((*conditions.notices, *notices, *times.notices))),
        conditions=conditions.conditions(),
        pair_bounds=times.pairs,
    )


def _check_size(parsed: Parsed) -> None:
    """Refuse a query whose values, all computed from one row, are together too large."""
    others = [condition.node for condition in parsed.conditions]
    others += () if parsed.group is None else parsed.group.expressions
    others += () if parsed.having is None else (parsed.having,)
    check_query_size(parsed.projections, others)


def _aggregate(parsed: Parsed, grouping: Grouping) -> tuple[tuple[Output, ...], Aggregation, tuple[str, ...]]:
    """Return the outputs, the aggregation and the notices of an aggregating query."""
    calls = Calls(grouping.scope)
    columns = GroupColumns(parsed, grouping, calls)
    outputs, having = columns.outputs(), columns.having()
    aggregation = Aggregation(grouping.keys, tuple(calls.found), having)
    return outputs, aggregation, (*grouping.notices, *calls.notices)


def _relations(parsed: Parsed, scope: Scope, conditions: Conditions, *, aggregated: bool) -> tuple[Relation, ...]:
    roles: Counter[str] = Counter()
    relations = []
    for source in scope.sources:
        role = roles[source.stream.name]
        roles[source.stream.name] += 1
        columns = () if aggregated else columns_read(parsed.projections, scope, source.index)
        predicate = conditions.predicate(source.index)
        relations.append(Relation(source.stream.name, source.alias, role, source.window, predicate, columns))
    return tuple(relations)


def _check_windows(scope: Scope, conditions: Conditions, aggregation: Aggregation | None) -> None:
    """Refuse a session window without groups or a join, and time conditions beside sessions or groups."""
    source = scope.sources[0]
    session = isinstance(source.window, Session)
    if session and aggregation is None and len(scope.sources) == 1:
        raise InvalidWindow(
            f'relation "{source.alias}" has a session window but neither groups nor a join',
            detail="A session is of the rows of one group or join key.",
            hint="Add GROUP BY, or join with another relation.",
        )
    if (session or aggregation is not None) and conditions.bounds:
        what = "a session window" if session else "an aggregation"
        raise UnsupportedQuery(
            f"a condition on the distance of event times beside {what} is not supported",
            hint="The window alone says which rows belong together: leave the condition out.",
        )
