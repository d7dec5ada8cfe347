"""Compilation of a shared plan into a `Program`, with predicate indexes per role and window tables per join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.execution.program import (
    AggregateClose,
    CombinedTag,
    JoinProbe,
    Program,
    RoleTag,
    SessionClose,
    SessionGather,
    SliceTag,
    StreamTag,
)
from weft.execution.selection.idle_streams import passed_of
from weft.execution.window_tables import join_windows, probe_windows
from weft.kernels.aggregate.close_windows import SlidingQuery
from weft.kernels.aggregate.factored import PairPlan
from weft.kernels.aggregate.rows_to_cells import Accumulator, Family
from weft.kernels.aggregate.sessions import SessionQuery
from weft.kernels.selection.index import Want, build_index, opaque_predicates
from weft.plan.aggregation import Function
from weft.plan.changelog import LiveQuery
from weft.plan.expression import Expression, Opaque, columns_of, conjuncts, guard_opaque, to_sql
from weft.plan.identity import identity
from weft.plan.key import StoreId
from weft.plan.probe_tree import Input, inputs_of
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedAggregate, SharedPlan, SharedSessionJoin, SliceFamily, SliceStore
from weft.plan.slots import Slots
from weft.plan.strategy import FactoredAggregate, ProbeAggregate, ProbeJoin, SessionAggregate
from weft.plan.stream import Stream
from weft.plan.window import Sliding, to_micros
from weft.planner.aggregates import session_slices
from weft.planner.join_aggregates import over_combinations
from weft.planner.session_joins import combination_order
from weft.planner.stores import probed_stores


def compile_program(plan: SharedPlan, streams: Mapping[str, Stream]) -> Program:
    """Compile a shared plan over `streams`. Pure, and fast enough to run whenever a query begins or ends."""
    live = 0
    for query in plan.queries:
        live |= 1 << query.slot
    slices = {store.id: _slice_tag(store, plan) for store in plan.slice_stores}
    combined = _combined_tags(slices, plan)
    aggregates = tuple(_aggregate_close(aggregate, plan) for aggregate in plan.aggregates)
    session_joins = tuple(_session_close(join, plan) for join in plan.session_joins)
    return Program(
        words=plan.words,
        live=Slots(live),
        streams={name: _stream_tag(stream, plan, slices) for name, stream in streams.items()},
        stores={store.id: store for store in plan.stores},
        joins=tuple(JoinProbe(join, join_windows(join, plan)) for join in plan.joins),
        slices=slices,
        aggregates=aggregates,
        session_joins=session_joins,
        probes=plan.probes,
        windows=probe_windows(plan),
        probed_stores=probed_stores(plan.queries),
        results=_probe_results(plan),
        combined=combined,
    )


def _stream_tag(stream: Stream, plan: SharedPlan, slices: Mapping[StoreId, SliceTag]) -> StreamTag:
    wants: dict[int, list[Want]] = {}
    for live in plan.queries:
        for relation in live.query.relations:
            if relation.stream == stream.name:
                want = Want(slot=live.slot, predicate=guard_opaque(relation.predicate), start=live.record.start)
                wants.setdefault(relation.role, []).append(want)
    roles, needed, opaque = [], {stream.time}, dict[str, Opaque]()
    for role, role_wants in sorted(wants.items()):
        index = build_index(role_wants, plan.words)
        stores = tuple(store for store in plan.stores if store.stream == stream.name and store.role == role)
        slice_tags = tuple(tag for tag in slices.values() if _is_of(tag.store, stream.name, role))
        roles.append(RoleTag(index, stores, slice_tags))
        needed |= index.columns
        for part in (part for tag in slice_tags for part in tag.users):
            needed |= columns_of(part)
            opaque |= {part.sql: part} if isinstance(part, Opaque) else {}
        for store in stores:
            needed.update(store.columns)
            keys = [part for store_index in store.indexes for part in store_index.key] + list(store.route)
            for part in keys:
                needed |= columns_of(part)
            opaque |= {part.sql: part for part in keys if isinstance(part, Opaque)}
        opaque |= {part.sql: part for part in opaque_predicates(role_wants)}
    for part in opaque.values():
        needed |= columns_of(part)
    columns = tuple(name for name in stream.schema.names() if name in needed)
    guards, passed = _key_guards(stream, plan), passed_of(stream.name, plan.queries)
    return StreamTag(stream, columns, tuple(roles), tuple(opaque.values()), guards, passed)


def _is_of(store: SliceStore, stream: str, role: int) -> bool:
    """Return whether the cells of a store are accumulated from rows of this stream in this role."""
    return not store.side.source and (store.side.stream, store.side.role) == (stream, role)


def _key_guards(stream: Stream, plan: SharedPlan) -> dict[str, tuple[tuple[int, str], ...]]:
    """Return, by the SQL of each opaque key, the slots that need the key, each with the SQL of its query's predicate.

    A query that runs alone computes its keys only on rows that pass its predicate, so Spark must not do more for it.
    """
    guards: dict[str, tuple[tuple[int, str], ...]] = {}
    for live in plan.queries:
        for number, relation in enumerate(live.query.relations):
            wanted = "true" if relation.predicate is None else to_sql(relation.predicate)
            for key in computed_parts(live.query, number) if relation.stream == stream.name else ():
                if isinstance(key, Opaque):
                    guards[key.sql] = (*guards.get(key.sql, ()), (live.slot, wanted))
    # One query's key may be another query's predicate, which is needed on every row.
    for live in plan.queries:
        for relation in live.query.relations:
            for part in conjuncts(guard_opaque(relation.predicate)) if relation.stream == stream.name else ():
                if isinstance(part, Opaque) and part.sql in guards:
                    guards[part.sql] = (*guards[part.sql], (live.slot, "true"))
    return guards


def computed_parts(query: BoundQuery, relation: int) -> list[Expression]:
    """Return the join keys, group keys and arguments of calls that a query computes from the rows of a relation."""
    parts = [pair.left for pair in query.keys if pair.left_relation == relation]
    parts += [pair.right for pair in query.keys if pair.right_relation == relation]
    return parts + list(query.aggregation.parts(relation) if query.aggregation is not None else ())


def _slice_tag(store: SliceStore, plan: SharedPlan) -> SliceTag:
    users: dict[Expression, Slots] = {}
    for live in plan.queries_in(store.slots):
        for part in _accumulated_parts(live.query, store):
            users[part] = Slots(users.get(part, 0) | 1 << live.slot)
    return SliceTag(
        store=store,
        accumulators=_texts(store.accumulators),
        families=tuple(
            Family(family.slots, _slice_windows(store, family), family.gap, _texts(family.accumulators), family.cuts)
            for family in store.families
        ),
        users=users,
    )


def _accumulated_parts(query: BoundQuery, store: SliceStore) -> Iterable[Expression]:
    """Return the expressions that a query computes for the cells of a store."""
    if store.side.source:
        return over_combinations(query).parts(0)
    numbers = (n for n, relation in enumerate(query.relations) if _is_of(store, relation.stream, relation.role))
    return [part for number in numbers for part in computed_parts(query, number)]


def _slice_windows(store: SliceStore, family: SliceFamily) -> tuple[tuple[int, int], ...]:
    """Return the windows whose edges cut slices.

    A combination is added to the cell of every window that contains it, so its slices are cut at window starts only.
    """
    if store.side.source and not store.side.session:
        return tuple(sorted({(slide, slide) for _, slide in family.windows}))
    return family.windows


def _combined_tags(slices: Mapping[StoreId, SliceTag], plan: SharedPlan) -> dict[str, tuple[CombinedTag, ...]]:
    tags: dict[str, tuple[CombinedTag, ...]] = {}
    for tag in slices.values():
        if tag.store.side.source:
            queries = plan.queries_in(tag.store.slots)
            shapes: dict[Sliding, Slots] = {}
            for live in queries:
                assert live.query.sliding is not None
                shapes[live.query.sliding] = Slots(shapes.get(live.query.sliding, 0) | 1 << live.slot)
            combined = CombinedTag(tag, tuple(sorted(inputs_of(queries[0].query))), tuple(shapes.items()))
            tags[tag.store.side.source] = (*tags.get(tag.store.side.source, ()), combined)
    return tags


def _texts(accumulators: Iterable[tuple[Function, Expression]]) -> tuple[Accumulator, ...]:
    return tuple(Accumulator(function, identity(argument)) for function, argument in accumulators)


def _aggregate_close(aggregate: SharedAggregate, plan: SharedPlan) -> AggregateClose:
    queries = plan.queries_in(aggregate.slots)
    combined = any(isinstance(live.strategy, ProbeAggregate) for live in queries)
    return AggregateClose(
        aggregate=aggregate,
        sliding=tuple(
            SlidingQuery(
                live.slot,
                to_micros(live.query.sliding.size),
                to_micros(live.query.sliding.slide),
                live.record.windows_from,
            )
            for live in queries
            if live.query.sliding is not None
        ),
        sessions=_session_queries(queries),
        pairs={live.slot: _pair_plan(live.query) for live in queries if isinstance(live.strategy, FactoredAggregate)},
        combined=combined,
    )


def _session_queries(queries: Iterable[LiveQuery]) -> tuple[SessionQuery, ...]:
    return tuple(
        SessionQuery(live.slot, to_micros(session.gap), session.cut)
        for live in queries
        if (session := live.query.session) is not None
    )


def _pair_plan(query: BoundQuery) -> PairPlan:
    """Return the calls of a query and where its group keys are: after the join keys, in the groups of their side."""
    assert query.aggregation is not None
    places, used = [], [len(query.keys)] * len(query.relations)
    for key in query.aggregation.keys:
        places.append((key.relation, used[key.relation]))
        used[key.relation] += 1
    return PairPlan(tuple(places), query.aggregation.calls)


def _session_close(join: SharedSessionJoin, plan: SharedPlan) -> SessionClose:
    queries = plan.queries_in(join.slots)
    streams = sorted({plan.store(store).stream for store, _ in join.places})
    return SessionClose(join, tuple(streams), tuple(_session_gather(live, plan) for live in queries))


def _session_gather(live: LiveQuery, plan: SharedPlan) -> SessionGather:
    query = live.query
    assert query.session is not None
    order = combination_order(query)
    source, slices = "", None
    if isinstance(live.strategy, SessionAggregate):
        source = live.strategy.result
        slices = _slice_tag(session_slices(live, live.strategy), plan)
    sessions = SessionQuery(live.slot, to_micros(query.session.gap), query.session.cut)
    return SessionGather(sessions, order.inputs, order.conditions, slices, source)


def _probe_results(plan: SharedPlan) -> dict[int, tuple[str, tuple[Input, ...]]]:
    results: dict[int, tuple[str, tuple[Input, ...]]] = {}
    for live in plan.queries:
        match live.strategy:
            case ProbeJoin(result=source) | ProbeAggregate(join=ProbeJoin(result=source)):
                results[live.slot] = (source, tuple(sorted(inputs_of(live.query))))
            case _:
                pass
    return results
