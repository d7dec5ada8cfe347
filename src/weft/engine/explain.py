"""The shared plan as text: what is shared with whom."""

from __future__ import annotations

from collections.abc import Iterable

from weft.optimize.weave import is_swapped, sides_of
from weft.plan.changelog import LiveQuery, QueryRecord, Slots
from weft.plan.expression import to_sql
from weft.plan.query import BoundQuery, Relation
from weft.plan.shared import SharedJoin, SharedPlan, Store, join_id, key_text
from weft.plan.window import window_text

_MANY = 8


def explain_plan(plan: SharedPlan) -> str:
    """All streams, stores and joins with the queries they serve."""
    lines = [
        f"shared plan: {len(plan.queries)} queries, {len(plan.stores)} stores, {len(plan.joins)} joins, "
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
    return "\n".join(lines)


def explain_query(record: QueryRecord, query: BoundQuery, plan: SharedPlan) -> str:
    """One query: its relations, where their rows are, and who else uses the same stores and join."""
    lines = [f"query {record.name} ({record.id}): {_life(record)}", f"  {' '.join(query.sql.split())}"]
    sides = sides_of(query, record.route)
    for relation, side in zip(query.relations, sides, strict=True):
        lines.append(f"  {_relation_text(relation)}")
        store = next((store for store in plan.stores if store.id == side.store), None)
        if store is not None:
            lines.append(
                f"    store {store.id}: {_store_text(store)}; shared with {_others(plan, store.slots, record)}"
            )
    if query.is_join:
        left, right = (sides[1], sides[0]) if is_swapped(sides) else (sides[0], sides[1])
        assert left.index is not None and right.index is not None
        mine = join_id(left.store, left.index.id, right.store, right.index.id)
        keys = " AND ".join(f"{to_sql(pair.left)} = {to_sql(pair.right)}" for pair in query.keys)
        lines.append(f"  join {mine} on {keys}")
        lines += [f"    shared with {_others(plan, j.slots, record)}" for j in plan.joins if j.id == mine]
    lines += [f"  notice: {notice}" for notice in query.notices]
    return "\n".join(lines)


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
    route = f"partitioned by {key_text(store.route)}" if store.route else "rows of selections"
    return f"{store.stream}{role}, {route}"


def _condition(plan: SharedPlan, join: SharedJoin) -> str:
    left = next(index for index in plan.store(join.left).indexes if index.id == join.left_index)
    right = next(index for index in plan.store(join.right).indexes if index.id == join.right_index)
    return f"{key_text(left.key)} = {key_text(right.key)}"


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
