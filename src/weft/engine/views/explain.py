"""The shared plan as text: what is shared with whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from weft.engine.views.explain_trees import Flows, explain_probed, explain_probes
from weft.plan.changelog import LiveQuery, QueryRecord
from weft.plan.expression import to_sql
from weft.plan.key import key_text
from weft.plan.probe_tree import TIME_ROUTE, inputs_of
from weft.plan.query import BoundQuery, Relation
from weft.plan.shared import SharedJoin, SharedPlan, SliceStore, Store
from weft.plan.slots import Slots
from weft.plan.strategy import (
    EquiJoin,
    FactoredAggregate,
    Place,
    ProbeAggregate,
    ProbeJoin,
    Selection,
    SessionAggregate,
    SessionJoin,
    SliceAggregate,
    Strategy,
)
from weft.plan.window import window_text
from weft.planner.aggregates import sliced_relations
from weft.planner.stores import stored_relations

_MANY = 8


def explain_plan(plan: SharedPlan, flows: Flows | None = None) -> str:
    """All streams, stores and joins with the queries they serve; `flows` is what probes had to do in the last batch."""
    lines = [
        f"shared plan: {len(plan.queries)} queries, {len(plan.stores) + len(plan.slice_stores)} stores, "
        f"{len(plan.joins) + len(plan.session_joins)} joins, {len(plan.aggregates)} aggregates, "
        f"{sum(1 for _ in plan.probes.probes())} probes, "
        f"query-sets of {plan.words} x 64 bits"
    ]
    for store in plan.stores:
        lines.append(f"  store {store.id}: {_store_text(store)}")
        lines += [f"    index {index.id} on {key_text(index.key)}" for index in store.indexes]
        lines.append(f"    columns {', '.join(store.columns) or '(none)'}")
        lines.append(f"    serves {_names(plan, store.slots)}")
    for join in plan.joins:
        lines.append(f"  join {join.id}: store {join.left} x store {join.right}, {_condition(plan, join)}")
        lines.append(f"    serves {_names(plan, join.slots)}")
    for session in plan.session_joins:
        stores = " x ".join(f"store {store}" for store, _ in session.places)
        keys = " = ".join(_index_text(plan, place) for place in session.places)
        lines.append(f"  session join {session.id}: {stores}, {keys}")
        lines.append(f"    serves {_names(plan, session.slots)}")
    for slices in plan.slice_stores:
        lines += _slices_lines(plan, slices)
    for aggregate in plan.aggregates:
        lines.append(f"  aggregate {aggregate.id}: from {' x '.join(f'slices {store}' for store in aggregate.stores)}")
        lines.append(f"    serves {_names(plan, aggregate.slots)}")
    lines += explain_probes(plan, flows or {}, lambda slots: _names(plan, slots))
    return "\n".join(lines)


def _slices_lines(plan: SharedPlan, slices: SliceStore) -> Iterator[str]:
    yield f"  slices {slices.id}: {_slices_text(plan, slices)}"
    calls = (f"{function} {to_sql(part)}" for function, part in slices.accumulators)
    yield f"    accumulates {', '.join(('rows', *calls))}"
    for family in slices.families:
        by = f"classes by {', '.join(family.columns)}" if family.columns else "classes of mixed predicates"
        yield f"    {by}: {_names(plan, family.slots)}"


def _slices_text(plan: SharedPlan, slices: SliceStore) -> str:
    side = slices.side
    if side.source:
        inputs = sorted(next(inputs_of(live.query) for live in _users(plan, slices.slots)))
        return f"{' ⋈ '.join(each.text for each in inputs)}, whole windows by {key_text(side.keys) or 'nothing'}"
    role = f" (as relation {side.role + 1} of self-joins)" if side.role else ""
    kind = "sessions" if side.session else "slices"
    return f"{side.stream}{role}, {kind} by {key_text(side.keys) or 'nothing'}"


def explain_query(record: QueryRecord, query: BoundQuery, strategy: Strategy, plan: SharedPlan) -> str:
    """One query: its relations, where their rows are, and who else uses the same stores and join."""
    lines = [f"query {record.name} ({record.id}): {_life(record)}", f"  {' '.join(query.sql.split())}"]
    if isinstance(strategy, SliceAggregate | FactoredAggregate):
        return "\n".join((*lines, *_aggregation_lines(record, query, strategy, plan)))
    for relation, side in zip(query.relations, stored_relations(strategy), strict=True):
        lines.append(f"  {_relation_text(relation)}")
        store = next((store for store in plan.stores if store.id == side.store), None)
        if store is not None:
            lines.append(
                f"    store {store.id}: {_store_text(store)}; shared with {_others(plan, store.slots, record)}"
            )
    lines += _join_lines(record, query, strategy, plan)
    lines += [f"  notice: {notice}" for notice in query.notices]
    return "\n".join(lines)


def _join_lines(record: QueryRecord, query: BoundQuery, strategy: Strategy, plan: SharedPlan) -> Iterator[str]:
    """How the relations of a query are joined, and which other queries use the same operators."""
    match strategy:
        case ProbeJoin(result=result) | ProbeAggregate(join=ProbeJoin(result=result)):
            yield from explain_probed(record, result, plan, others=lambda slots: _others(plan, slots, record))
            yield from _combined_lines(record, strategy, plan)
        case SessionJoin(result=result) | SessionAggregate(join=SessionJoin(result=result)):
            yield f"  session join {result}: combinations of a session of the join key, when it ends"
            yield from (f"    where {to_sql(each.expression)}" for each in query.conditions)
            yield from (
                f"    shared with {_others(plan, join.slots, record)}"
                for join in plan.session_joins
                if join.id == result
            )
        case EquiJoin(result=result):
            keys = " AND ".join(f"{to_sql(pair.left)} = {to_sql(pair.right)}" for pair in query.keys)
            yield f"  join {result} on {keys}"
            yield from (
                f"    shared with {_others(plan, join.slots, record)}" for join in plan.joins if join.id == result
            )
        case Selection() | SliceAggregate() | FactoredAggregate():
            pass
        case _:
            assert_never(strategy)


def _aggregation_lines(
    record: QueryRecord, query: BoundQuery, strategy: SliceAggregate | FactoredAggregate, plan: SharedPlan
) -> Iterator[str]:
    """Where each relation accumulates, and which other queries use the same slices."""
    for relation, side in zip(query.relations, strategy.slices, strict=True):
        yield f"  {_relation_text(relation)}"
        for slices in (slices for slices in plan.slice_stores if slices.id == side.store):
            shared = _others(plan, slices.slots, record)
            yield f"    slices {slices.id}: {_slices_text(plan, slices)}; shared with {shared}"
    if isinstance(strategy, FactoredAggregate):
        keys = " AND ".join(f"{to_sql(pair.left)} = {to_sql(pair.right)}" for pair in query.keys)
        yield f"  per window and key, both sides multiplied on {keys}: no pairs are built"
    yield from (f"  notice: {notice}" for notice in query.notices)


def _combined_lines(record: QueryRecord, strategy: Strategy, plan: SharedPlan) -> Iterator[str]:
    """What becomes of the combinations of an aggregating query."""
    mine = {side.store for side in sliced_relations(strategy)}
    for slices in (slices for slices in plan.slice_stores if slices.id in mine):
        shared = _others(plan, slices.slots, record)
        yield f"  combinations become slices {slices.id}: {_slices_text(plan, slices)}; shared with {shared}"


def _life(record: QueryRecord) -> str:
    if record.error:
        return f"failed in batch {record.ended}: {record.error}"
    if record.ended is not None:
        return f"dropped before batch {record.ended}"
    return f"slot {record.slot}, live since batch {record.created}"


def _relation_text(relation: Relation) -> str:
    window = f" {window_text(relation.window)}" if relation.window is not None else ""
    where = f" where {to_sql(relation.predicate)}" if relation.predicate is not None else ""
    return f"{relation.stream}{window} as {relation.alias}{where}"


def _store_text(store: Store) -> str:
    role = f" (as relation {store.role + 1} of self-joins)" if store.role else ""
    if store.route == TIME_ROUTE:
        return f"{store.stream}{role}, divided by event time"
    route = f"partitioned by {key_text(store.route)}" if store.route else "rows of selections"
    return f"{store.stream}{role}, {route}"


def _condition(plan: SharedPlan, join: SharedJoin) -> str:
    places = ((join.left, join.left_index), (join.right, join.right_index))
    return " = ".join(_index_text(plan, place) for place in places)


def _index_text(plan: SharedPlan, place: Place) -> str:
    return next(key_text(index.key) for index in plan.store(place[0]).indexes if index.id == place[1])


def _names(plan: SharedPlan, slots: Slots) -> str:
    return _list(live.record.name for live in _users(plan, slots))


def _others(plan: SharedPlan, slots: Slots, record: QueryRecord) -> str:
    return _list(live.record.name for live in _users(plan, slots) if live.record.id != record.id) or "nobody"


def _users(plan: SharedPlan, slots: Slots) -> Iterable[LiveQuery]:
    return (live for live in plan.queries if slots >> live.slot & 1)


def _list(names: Iterable[str]) -> str:
    everyone = list(names)
    shown = ", ".join(everyone[:_MANY])
    return shown + (f" and {len(everyone) - _MANY} more" if len(everyone) > _MANY else "")
