from __future__ import annotations

import math

import pytest

from tests.support.probe_cases import chain, even, query, statistics
from weft.planner.joins.estimate import Estimates, estimate
from weft.planner.joins.graph import JoinGraph, JoinQuery
from weft.planner.joins.one_query import ProbeOrder, exhaustive_orders, greedy_orders
from weft.planner.joins.statistics import CostModel, Statistics


def estimates_of(one: JoinQuery, known: Statistics, *, tasks: int = 4) -> Estimates:
    return estimate(JoinGraph().extended([one]), known, CostModel(tasks=tasks))


def names(order: ProbeOrder) -> str:
    return " ".join(each.stream for each in order.inputs)


def test_orders_of_the_clash_example() -> None:
    """CLASH V-A2: q1 alone takes ⟨S, R, T⟩ and sends 475 tuples."""
    q1 = query("q1", "R.a = S.a", "S.b = T.b")
    known = statistics({"R": 100, "S": 100, "T": 100}, {"R.a = S.a": 0.01, "S.b = T.b": 0.015})
    orders = exhaustive_orders(q1, estimates_of(q1, known))
    assert [names(order) for order in orders] == ["R S T", "S R T", "T S R"]
    assert [order.cost for order in orders] == [150, 150, 175]
    assert greedy_orders(q1, estimates_of(q1, known)) == orders


def test_greedy_looks_one_step_further() -> None:
    """Probing T first sends as much, but what follows is smaller."""
    star = query("star", "S.a = R.a", "S.b = T.b", "S.c = U.c")
    known = statistics(
        dict.fromkeys("RSTU", 100), {"R.a = S.a": 0.05, "S.b = T.b": 0.0001, "S.c = U.c": 0.01}
    )  # fmt: skip
    from_s = next(order for order in greedy_orders(star, estimates_of(star, known)) if order.inputs[0].stream == "S")
    assert names(from_s) == "S T U R"


def test_a_comparison_is_broadcast_to_all_tasks() -> None:
    equal, less = query("q", "R.a = S.a"), query("q", "R.a < S.a")
    known = statistics({"R": 10, "S": 20}, {"R.a = S.a": 0.1, "R.a < S.a": 0.1})
    assert sum(each.cost for each in greedy_orders(equal, estimates_of(equal, known))) == 30
    assert sum(each.cost for each in greedy_orders(less, estimates_of(less, known))) == 4 * 30
    everywhere = greedy_orders(equal, estimates_of(equal, known), broadcast=True)
    assert sum(each.cost for each in everywhere) == 4 * 30


def test_theta_joins_are_ordered_by_what_they_send() -> None:
    """A broadcast is put off until few partial results are left."""
    q = query("q", "R.a < S.a", "R.b = T.b")
    known = statistics({"R": 100, "S": 100, "T": 100}, {"R.a < S.a": 0.3, "R.b = T.b": 0.001})
    from_r = greedy_orders(q, estimates_of(q, known))[0]
    assert names(from_r) == "R T S"
    assert from_r.cost == pytest.approx(100 + 5 * 4)


def test_all_orders_are_tried_up_to_six_relations() -> None:
    six = chain(6)
    estimates = estimates_of(six, even(6))
    best, greedy = exhaustive_orders(six, estimates), greedy_orders(six, estimates)
    assert all(one.cost <= other.cost + 1e-9 for one, other in zip(best, greedy, strict=True))
    with pytest.raises(ValueError, match="too many to try"):
        exhaustive_orders(chain(7), estimates_of(chain(7), even(7)))
    assert math.isfinite(sum(each.cost for each in greedy_orders(chain(7), estimates_of(chain(7), even(7)))))
