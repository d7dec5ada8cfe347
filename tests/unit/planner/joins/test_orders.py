from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.support.probe_cases import chain, even, query, statistics
from weft.errors import DuplicateQuery, InternalError, UnknownQuery
from weft.plan.changelog import QueryId
from weft.planner.highs import SolverLimits
from weft.planner.joins.graph import JoinQuery
from weft.planner.joins.lattice import build_lattice
from weft.planner.joins.order_plan import Method, fault, plan_of
from weft.planner.joins.orders import add_queries, drop_queries, plan_probe_orders
from weft.planner.joins.paths import Routing, least_cost, route
from weft.planner.joins.program.model import build_model
from weft.planner.joins.program.solve import independent_parts, solve_paths
from weft.planner.joins.statistics import CostModel
from weft.planner.rule_sets.explain_orders import explain_orders

QUERIES = (
    query("q1", "R.a = S.a", "S.b = T.b"),
    query("q2", "S.b = T.b", "T.c = U.c"),
    query("q3", "R.a = S.a", "S.d < V.d"),
    query("q4", "R.a = S.a", "S.b = T.b", "T.c = U.c"),
)
SIZES = statistics(
    dict.fromkeys("RSTUV", 100.0),
    {"R.a = S.a": 0.01, "S.b = T.b": 0.015, "T.c = U.c": 0.01, "S.d < V.d": 0.3},
)


@pytest.mark.parametrize("method", [Method.ILP, Method.SUBPLANS, Method.GREEDY])
def test_every_method_answers_all_queries(method: Method) -> None:
    plan = plan_probe_orders(QUERIES, SIZES, method=method)
    assert plan.method is method
    assert fault(plan) == ""
    assert math.isclose(plan.cost, plan.probe_cost + plan.storage_cost)
    for each in QUERIES:
        assert {order.start for order in plan.orders(each.id)} == set(each.inputs)


def test_no_method_beats_the_program() -> None:
    best = plan_probe_orders(QUERIES, SIZES, method=Method.ILP)
    assert best.gap <= 1e-9
    for method in (Method.SUBPLANS, Method.GREEDY):
        other = plan_probe_orders(QUERIES, SIZES, method=method)
        assert other.cost >= best.cost - 1e-6
        assert other.bound <= best.cost + 1e-6


def test_auto_is_greedy_without_time_and_the_program_with_it() -> None:
    assert plan_probe_orders(QUERIES, SIZES, limits=SolverLimits(time=timedelta(0))).method is Method.GREEDY
    assert plan_probe_orders(QUERIES, SIZES).method is Method.ILP


def test_the_program_without_time_still_gives_a_plan_and_a_bound() -> None:
    plan = plan_probe_orders(QUERIES, SIZES, limits=SolverLimits(time=timedelta(0)), method=Method.ILP)
    assert fault(plan) == ""
    assert 0 < plan.bound <= plan.cost


def test_queries_larger_than_the_lattice_allows_are_planned_too() -> None:
    plan = plan_probe_orders([chain(12)], even(12), limits=SolverLimits(time=timedelta(milliseconds=300)))
    assert fault(plan) == ""
    assert plan.bound > 0
    more = add_queries(plan_probe_orders(QUERIES, SIZES), [chain(12)])
    assert fault(more) == ""


def test_a_comparison_is_broadcast_and_its_store_lies_at_random() -> None:
    plan = plan_probe_orders([query("q", "R.a < S.a")], SIZES)
    steps = [step for order in plan.orders(QueryId("q")) for step in order.steps]
    assert [(step.broadcast, step.attribute, step.cost) for step in steps] == [(True, "", 400.0), (True, "", 400.0)]


def test_a_dear_copy_is_replaced_by_broadcasts() -> None:
    """R is probed by S.a often and by T.b rarely: a second copy is not worth it."""
    queries = [query("q1", "R.a = S.a"), query("q2", "R.b = T.b")]
    known = statistics({"R": 1000.0, "S": 1000.0, "T": 1.0}, {"R.a = S.a": 0.01, "R.b = T.b": 0.01})
    plan = plan_probe_orders(queries, known, CostModel(storage_price=1.0))
    to_r = [step for order in plan.orders(QueryId("q2")) for step in order.steps if step.store == ("R",)]
    assert [(step.attribute, step.broadcast) for step in to_r] == [("R.a", True)]
    cheap = plan_probe_orders(queries, known, CostModel(storage_price=0.0001))
    to_r = [step for order in cheap.orders(QueryId("q2")) for step in order.steps if step.store == ("R",)]
    assert [(step.attribute, step.broadcast) for step in to_r] == [("R.b", False)]


def test_intermediates_are_stored_where_they_pay() -> None:
    free = plan_probe_orders([chain(4)], even(4), CostModel(storage_price=0.0))
    dear = plan_probe_orders([chain(4)], even(4), CostModel(storage_price=10.0))
    none = plan_probe_orders([chain(4)], even(4), CostModel(storage_price=0.0, intermediates=False))
    assert free.intermediates
    assert not dear.intermediates
    assert not none.intermediates
    assert free.probe_cost < none.probe_cost
    small = plan_probe_orders([chain(4)], even(4), CostModel(storage_price=0.0, largest_intermediate=2))
    assert max(len(names) for names in small.intermediates) == 2


def test_one_relation_needs_no_probe() -> None:
    alone = JoinQuery(QueryId("one"), chain(2).inputs[:1], ())
    assert plan_probe_orders([alone], even(2)).cost == 0
    assert plan_probe_orders([], even(2)).cost == 0


def test_the_same_id_twice_is_refused() -> None:
    with pytest.raises(DuplicateQuery):
        plan_probe_orders([QUERIES[0], QUERIES[0]], SIZES)
    with pytest.raises(DuplicateQuery, match="q1"):
        add_queries(plan_probe_orders(QUERIES, SIZES), QUERIES[:1])
    with pytest.raises(UnknownQuery, match="q9"):
        drop_queries(plan_probe_orders(QUERIES, SIZES), [QueryId("q9")])


def test_adding_then_dropping_leaves_what_was() -> None:
    plan = plan_probe_orders(QUERIES[:3], SIZES)
    more = add_queries(plan, QUERIES[3:])
    assert more.method is Method.INCREMENTAL
    assert more.bound >= plan.bound
    less = drop_queries(more, ["q4"])  # type: ignore[list-item]
    assert less.queries == plan.queries
    assert less.cost == pytest.approx(plan.cost)
    nothing = drop_queries(less, list(less.queries))
    assert (nothing.cost, nothing.paths) == (0, {})


def test_a_query_adds_to_the_cost_and_saves_it_again() -> None:
    plan = plan_probe_orders(QUERIES[:3], SIZES)
    assert add_queries(plan, QUERIES[3:]).cost > plan.cost
    assert drop_queries(plan, [QueryId("q3")]).cost < plan.cost
    assert set(add_queries(drop_queries(plan, [QueryId("q1")]), QUERIES[3:]).queries) == {"q2", "q3", "q4"}


def test_equal_new_queries_count_once_in_the_bound() -> None:
    """Both need the same last edges, which a plan pays for once; counted twice, the bound exceeded the optimum."""
    plan = plan_probe_orders(QUERIES[:1], SIZES)
    twins = [query(name, "V.e = W.e", "W.f = X.f") for name in ("first", "second")]
    assert add_queries(plan, twins).bound == pytest.approx(add_queries(plan, twins[:1]).bound)


def test_queries_without_anything_in_common_are_solved_apart() -> None:
    apart = [query(f"q{at}", f"A{at}.a = B{at}.a", f"B{at}.b = C{at}.b") for at in range(4)]
    lattice = build_lattice(apart, SIZES, CostModel())
    groups = list(lattice.targets.values())
    assert len(independent_parts(lattice, groups)) == 1, "small parts are packed together"
    many = [query(f"q{at}", *(f"R{at}{i}.b = R{at}{i + 1}.a" for i in range(4))) for at in range(3)]
    lattice = build_lattice(many, SIZES, CostModel())
    groups = list(lattice.targets.values())
    assert [len(part) for part in independent_parts(lattice, groups)] == [1, 1, 1]
    whole = solve_paths(lattice, groups, SolverLimits())
    assert math.isclose(whole.routing.cost(), sum(
        solve_paths(lattice, [group], SolverLimits()).routing.cost() for group in groups))  # fmt: skip


def test_a_routing_is_an_answer_of_the_model() -> None:
    lattice = build_lattice(QUERIES, SIZES, CostModel())
    targets = [node for group in lattice.targets.values() for node in group]
    routing = route(lattice, targets)
    model = build_model(lattice, targets, most=routing.cost())
    values = model.encode(routing)
    assert model.model.violation(values) == ""
    assert model.model.cost(values) / model.scale == pytest.approx(routing.cost())
    again = route(lattice, targets, model.guide(values))
    assert again.cost() <= routing.cost() + 1e-9
    assert least_cost(lattice, targets) <= routing.cost()


def test_releasing_everything_leaves_nothing() -> None:
    lattice = build_lattice(QUERIES, SIZES, CostModel(storage_price=0.0))
    targets = [node for group in lattice.targets.values() for node in group]
    routing = route(lattice, targets)
    for node in targets:
        routing.release(node)
    assert (routing.cost(), routing.edges(), routing.copies(), routing.paths) == (0, frozenset(), frozenset(), {})


def test_an_incomplete_plan_is_noticed() -> None:
    plan = plan_probe_orders(QUERIES, SIZES)
    node = plan.targets()[0]
    without = {at: path for at, path in plan.paths.items() if at != node}
    assert fault(replace(plan, paths=without)).startswith("no path to")
    assert "broken" in fault(replace(plan, paths=plan.paths | {node: plan.paths[node][1:] or (0, 0)}))
    assert "cannot serve" in fault(replace(plan, edge_copy=dict.fromkeys(plan.edge_copy, -1)))
    assert "below the bound" in fault(replace(plan, bound=plan.cost * 2))
    spare = next(edge for edge in range(len(plan.lattice.edges)) if edge not in plan.edge_copy
                 and not plan.lattice.upkeep[plan.lattice.edges[edge].store])  # fmt: skip
    copies = plan.edge_copy | {spare: plan.lattice.serving(spare)[0]}
    assert "never used" in fault(replace(plan, edge_copy=copies))
    with pytest.raises(InternalError, match="incomplete"):
        plan_of(Routing(plan.lattice), QUERIES, bound=0.0, method=Method.GREEDY)


def test_an_explanation_tells_costs_alternatives_and_savings() -> None:
    plan = plan_probe_orders(QUERIES, SIZES)
    told = explain_orders(plan)
    assert told.cost == plan.cost
    assert told.saved == pytest.approx(told.alone - told.cost)
    assert 0 < told.saved_fraction < 1
    assert sum(each.shared for each in told.queries) == pytest.approx(plan.cost)
    assert len(told.orders) == sum(len(each.inputs) for each in QUERIES)
    first = told.orders[0]
    assert first.considered == 1 + len(first.alternatives)
    assert first.share <= first.cost
    assert {each.relations for each in told.stores} == set(plan.intermediates)
    assert all(each.queries for each in told.stores)
    assert json.loads(json.dumps(told.to_json()))["method"] == "ilp"


def test_known_costs_are_not_worked_out_again() -> None:
    plan = plan_probe_orders(QUERIES, SIZES)
    told = explain_orders(plan, {each.id: 1000.0 for each in QUERIES})
    assert told.alone == 4000
