"""Weaving: who shares what, and the invariants every woven plan has. The plans themselves: tests/golden/plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.engine_sample import STREAMS, WINDOW, live
from weft.plan.changelog import LiveQuery
from weft.plan.key import key_text
from weft.plan.probe_tree import NO_PROBES
from weft.plan.shared import SharedPlan
from weft.plan.strategy import EquiJoin
from weft.planner.plan import assemble
from weft.planner.stores import stored_relations
from weft.planner.strategy import choose_route, routes_of
from weft.sql import bind

ON_K = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k"
ON_K_TURNED = f"SELECT p.x FROM b {WINDOW} q JOIN a {WINDOW} p ON q.k = p.k"
ON_K_J = f"SELECT q.s FROM a {WINDOW} p JOIN b {WINDOW} q ON p.j = q.j AND p.k = q.k"
ON_K_J_TURNED = f"SELECT q.s FROM b {WINDOW} q JOIN a {WINDOW} p ON q.j = p.j AND q.k = p.k"
CROSSED = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.j"
COMPUTED = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k + 1 = q.k"
OTHER = f"SELECT p.x FROM a {WINDOW} p JOIN c {WINDOW} q ON p.k = q.k"
SELF = f"SELECT p.x, q.x AS y FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.k"
SELF_CROSSED = f"SELECT p.x, q.x AS y FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.j"
SELECTION = "SELECT s FROM a WHERE x > 1"
TEXTS = (ON_K, ON_K_TURNED, ON_K_J, ON_K_J_TURNED, CROSSED, COMPUTED, OTHER, SELF, SELF_CROSSED, SELECTION)


def plan_of(queries: Sequence[LiveQuery]) -> SharedPlan:
    return assemble(queries, STREAMS, NO_PROBES)


def woven(*texts: str) -> list[LiveQuery]:
    """Queries created one after the other, each with the route it would get."""
    found: list[LiveQuery] = []
    for slot, text in enumerate(texts):
        found.append(live(text, slot, route=choose_route(bind(text, STREAMS), routes_of(found))))
    return found


@pytest.mark.parametrize("composite", [ON_K_J, ON_K_J_TURNED])
@pytest.mark.parametrize("single", [ON_K, ON_K_TURNED])
def test_a_composite_key_travels_with_a_single_one_that_is_there(single: str, composite: str) -> None:
    queries = woven(single, composite)
    assert [key_text(side.route) for side in stored_relations(queries[1].strategy)] == ["`k`", "`k`"]
    plan = plan_of(queries)
    assert (len(plan.stores), len(plan.joins)) == (2, 2)


def test_a_composite_key_that_comes_first_keeps_its_own_stores() -> None:
    plan = plan_of(woven(ON_K_J, ON_K))
    assert (len(plan.stores), len(plan.joins)) == (4, 2)


@pytest.mark.parametrize("first", [CROSSED, COMPUTED, OTHER, SELF])
def test_a_route_counts_only_with_the_same_equality_on_both_sides(first: str) -> None:
    assert woven(first, ON_K_J)[1].record.route == (0, 1)


def test_a_join_turned_round_is_the_same_join() -> None:
    plan = plan_of(woven(ON_K, ON_K_TURNED))
    assert [join.slots for join in plan.joins] == [0b11]
    assert [isinstance(each.strategy, EquiJoin) and each.strategy.swapped for each in plan.queries] == [False, True]


def test_a_self_join_has_two_stores_and_a_selection_one() -> None:
    plan = plan_of(woven(SELF, SELECTION))
    assert sorted((store.role, key_text(store.route)) for store in plan.stores) == [(0, ""), (0, "`k`"), (1, "`k`")]
    assert len(plan.joins) == 1


def test_a_self_join_is_not_turned_round_by_its_keys() -> None:
    """Swapping must not mix up which occurrence is which."""
    plan = plan_of(woven(SELF_CROSSED))
    left, right = plan.store(plan.joins[0].left), plan.store(plan.joins[0].right)
    assert {(store.role, key_text(store.route)) for store in (left, right)} == {(0, "`k`"), (1, "`j`")}


def test_no_queries_no_plan() -> None:
    plan = plan_of([])
    assert (plan.words, plan.stores, plan.joins) == (1, (), ())


@given(st.lists(st.sampled_from(TEXTS), max_size=12))
@settings(max_examples=25)
def test_every_query_finds_all_it_needs_and_nothing_else_is_there(texts: list[str]) -> None:
    queries = woven(*texts)
    plan = plan_of(queries)
    for each in queries:
        sides = stored_relations(each.strategy)
        for relation, side in zip(each.query.relations, sides, strict=True):
            store = plan.store(side.store)
            assert store.slots >> each.slot & 1
            assert set(relation.columns) <= set(store.columns)
            assert side.index is None or side.index in store.indexes
            assert side.index is None or set(side.index.columns()) <= {*store.columns, *side.index.columns()}
        if isinstance(each.strategy, EquiJoin):
            mine = each.strategy.result
            assert [join.slots >> each.slot & 1 for join in plan.joins if join.id == mine] == [1]
    everyone = (1 << len(queries)) - 1
    assert all(store.slots and not store.slots & ~everyone for store in plan.stores)
    assert all(
        store.columns == tuple(c for c in STREAMS["a"].schema.names() if c in store.columns) for store in plan.stores
    )
    assert len({store.id for store in plan.stores}) == len(plan.stores)
    assert len({join.id for join in plan.joins}) == len(plan.joins)


def test_the_plan_does_not_depend_on_the_order_of_queries() -> None:
    queries = woven(ON_K, SELF, SELECTION, ON_K_J)
    plans = {(plan.stores, plan.joins) for order in permutations(queries) for plan in [plan_of(order)]}
    assert len(plans) == 1
