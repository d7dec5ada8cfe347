from __future__ import annotations

import math

import pytest

from tests.support.probe_cases import chain, even, query, statistics
from weft.errors import UnsupportedQuery
from weft.planner.joins.estimate import Estimates, estimate
from weft.planner.joins.graph import JoinGraph, JoinQuery
from weft.planner.joins.join_tree import JoinTree, best_tree, chain_tree, price
from weft.planner.joins.one_query import exhaustive_orders, probing_of
from weft.planner.joins.statistics import CostModel, Statistics


def estimates_of(one: JoinQuery, known: Statistics) -> Estimates:
    return estimate(JoinGraph().extended([one]), known, CostModel())


def test_a_flat_tree_costs_what_its_probe_orders_cost() -> None:
    """Eq. 2 and eq. 3: nothing but the relations is stored."""
    four = chain(4)
    estimates = estimates_of(four, even(4))
    flat = price(JoinTree(0b1111, tuple(JoinTree(1 << at) for at in range(4))), probing_of(four, estimates))
    assert flat.storage == 400
    assert flat.probe_cost == pytest.approx(sum(each.cost for each in exhaustive_orders(four, estimates)))


def test_without_budget_the_tree_stays_flat() -> None:
    four = chain(4)
    estimates = estimates_of(four, even(4))
    for tree in (chain_tree(four, estimates, 400), best_tree(four, estimates, 400), best_tree(four, estimates, 0)):
        assert tree.tree.text(estimates) == "(R0 ⋈ R1 ⋈ R2 ⋈ R3)"


def test_more_storage_means_fewer_probes() -> None:
    five = chain(5)
    estimates = estimates_of(five, even(5))
    costs = [best_tree(five, estimates, budget).probe_cost for budget in (500, 600, 700, 800, math.inf)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0]
    assert all(best_tree(five, estimates, budget).storage <= budget for budget in (500, 600, 700))


def test_the_cheapest_result_of_a_chain_is_stored_first() -> None:
    """Fig. 7: R1 ⋈ R2 is the smallest, then what holds it."""
    four = chain(4)
    known = statistics(
        {f"R{at}": 100 for at in range(4)}, {"R0.b = R1.a": 0.02, "R1.b = R2.a": 0.001, "R2.b = R3.a": 0.01}
    )
    estimates = estimates_of(four, known)
    assert chain_tree(four, estimates, 411).tree.text(estimates) == "(R0 ⋈ (R1 ⋈ R2) ⋈ R3)"
    assert chain_tree(four, estimates, 425).tree.text(estimates) == "(R0 ⋈ ((R1 ⋈ R2) ⋈ R3))"


def test_the_general_version_is_never_worse_than_that_for_chains() -> None:
    for budget in (500, 650, 800, 1000):
        five = chain(5)
        estimates = estimates_of(five, even(5, selectivity=0.008))
        one, other = best_tree(five, estimates, budget), chain_tree(five, estimates, budget)
        assert one.probe_cost <= other.probe_cost + 1e-9


def test_any_join_graph_has_a_tree() -> None:
    cycle = query("cycle", "R.a = S.a", "S.b = T.b", "T.c = U.c", "U.d < R.d")
    estimates = estimates_of(cycle, Statistics())
    assert best_tree(cycle, estimates, math.inf).tree.inputs == 0b1111
    with pytest.raises(UnsupportedQuery, match="not a chain"):
        chain_tree(cycle, estimates, math.inf)
    eight = chain(8)
    assert math.isfinite(best_tree(eight, estimates_of(eight, even(8)), math.inf).probe_cost)


def test_a_single_relation_is_its_own_tree() -> None:
    one = JoinQuery(chain(2).id, chain(2).inputs[:1], ())
    estimates = estimates_of(one, even(2))
    assert best_tree(one, estimates, 0).probe_cost == 0
