from __future__ import annotations

import pytest

from tests.support.probe_cases import chain, even, query, statistics
from weft.planner.highs import SolverLimits
from weft.planner.joins.estimate import estimate
from weft.planner.joins.graph import JoinGraph, JoinQuery
from weft.planner.joins.lattice import build_lattice
from weft.planner.joins.order_plan import Method
from weft.planner.joins.orders import plan_alone, plan_probe_orders
from weft.planner.joins.paths import route
from weft.planner.joins.program.lower_bounds import shape_of
from weft.planner.joins.program.model import build_model
from weft.planner.joins.program.solve import solve_paths
from weft.planner.joins.statistics import CostModel, Statistics

RENAMED = (
    query("q1", "A.x = B.y", "B.z = C.x", "C.y = D.x"),
    query("q2", "H.m = G.n", "F.n = G.m", "E.k = F.m"),
)
"""The same chain, written from its other end with other names."""


def shapes(queries: tuple[JoinQuery, ...], known: Statistics) -> list[object]:
    estimates = estimate(JoinGraph().extended(queries), known, CostModel())
    return [shape_of(estimates, *estimates.graph.encode(each)) for each in queries]


def test_names_do_not_matter() -> None:
    one, other = shapes(RENAMED, Statistics())
    assert one == other


def test_an_attribute_used_twice_is_another_shape() -> None:
    """One copy of B then serves both joins."""
    same, apart = query("q1", "A.x = B.y", "B.y = C.x"), query("q2", "D.x = E.y", "E.z = F.x")
    one, other = shapes((same, apart), Statistics())
    assert one != other


def test_statistics_matter() -> None:
    known = statistics({"A": 7.0}, {})
    assert len(set(shapes(RENAMED, known))) == 2
    known = statistics({}, {"A.x = B.y": 0.5})
    assert len(set(shapes(RENAMED, known))) == 2
    assert len(set(shapes((query("q1", "A.x = B.y"), query("q2", "C.x < D.y")), Statistics()))) == 2


def test_equal_shapes_cost_the_same_alone() -> None:
    costs = [plan_alone(each, Statistics()).cost for each in RENAMED]
    assert costs[0] == pytest.approx(costs[1])


def test_floors_do_not_change_the_optimum() -> None:
    queries = (chain(4), query("q2", "R1.b = R2.a", "R2.b = R3.a", "R3.z = X.z"))
    known = even(4)
    lattice = build_lattice(queries, known, CostModel())
    groups = list(lattice.targets.values())
    targets = [node for group in groups for node in group]
    best = solve_paths(lattice, groups, SolverLimits())
    floors = [(group, solve_paths(lattice, [group], SolverLimits()).bound) for group in groups]
    model = build_model(lattice, targets, most=1e9, floors=floors)
    values = model.encode(best.routing)
    assert model.model.violation(values) == ""
    assert best.bound == pytest.approx(best.routing.cost())


def test_large_queries_that_share_little_are_proven_with_floors() -> None:
    queries = tuple(
        query(f"q{at}", "R.a = S.a", *(f"{one}.b{at} = {two}{at}.a" for one, two in (("S", "T"), ("R", "U"))),
              f"T{at}.b = V{at}.a")
        for at in range(3)
    )  # fmt: skip
    plan = plan_probe_orders(queries, Statistics(), method=Method.ILP)
    assert plan.gap <= 1e-6


def test_stores_first_is_a_lower_bound() -> None:
    lattice = build_lattice([chain(5)], even(5), CostModel())
    targets = lattice.targets[chain(5).id]
    model = build_model(lattice, targets, most=route(lattice, targets).cost())
    assert sum(model.stores_first().integers) < sum(model.model.integers)
