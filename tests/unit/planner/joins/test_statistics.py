from __future__ import annotations

import math
from datetime import timedelta

import pytest

from tests.support.probe_cases import attribute, chain, condition, even, relation
from weft.plan.window import Range, Session, Sliding, Unbounded, Window
from weft.planner.joins.estimate import estimate
from weft.planner.joins.graph import JoinGraph, JoinInput
from weft.planner.joins.statistics import DEFAULT_RATE, LARGEST, CostModel, Statistics

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("measured", "rate"),
    [(50.0, 50.0), (None, DEFAULT_RATE), (math.nan, DEFAULT_RATE), (math.inf, LARGEST), (-3.0, 0.0), (0.0, 0.0)],
)
def test_rates_are_usable_whatever_was_measured(measured: float | None, rate: float) -> None:
    rates = {} if measured is None else {relation("R"): measured}
    assert Statistics(rates=rates).rate(relation("R")) == rate


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (None, 1),
        (Range(8 * SECOND), 8),
        (Sliding(8 * SECOND, 2 * SECOND), 8),
        (Session(3 * SECOND), 3),
        (Unbounded(), 60),
    ],
)
def test_a_store_holds_what_arrives_during_the_window(window: Window | None, seconds: float) -> None:
    source = JoinInput("R", 0, window)
    known = Statistics(rates={source: 10.0}, history=timedelta(minutes=1))
    assert known.stored(source) == 10.0 * seconds


def test_selectivity_is_measured_or_from_distinct_keys_or_a_default() -> None:
    equal, less, unequal = condition("R.a = S.b"), condition("R.a < S.b"), condition("R.a <> S.b")
    keys = {attribute("R.a"): 50.0, attribute("S.b"): 200.0}
    assert Statistics(selectivities={equal: 0.3}, distinct_keys=keys).selectivity(equal) == 0.3
    assert Statistics(distinct_keys=keys).selectivity(equal) == 1 / 200
    assert Statistics().selectivity(equal) == 0.01
    assert Statistics(distinct_keys=keys).selectivity(less) == 1 / 3
    assert Statistics().selectivity(unequal) == 0.9
    assert Statistics(selectivities={equal: math.nan}).selectivity(equal) == 0.01
    assert Statistics(selectivities={equal: 7.0}).selectivity(equal) == 1.0


def test_each_result_is_produced_once_by_its_latest_tuple() -> None:
    graph = JoinGraph().extended([chain(3)])
    estimates = estimate(graph, even(3), CostModel())
    _, predicates = graph.encode(chain(3))
    assert estimates.flow(0, 0b001, 0) == 100
    assert estimates.flow(0, 0b011, graph.within(0b011, predicates)) == 50
    assert estimates.flow(2, 0b111, predicates) == pytest.approx(100 / 3)
    assert estimates.stored(0b111, predicates) == pytest.approx(100)


def test_sizes_stay_finite() -> None:
    graph = JoinGraph().extended([chain(5)])
    _, predicates = graph.encode(chain(5))
    large = estimate(graph, even(5, rate=math.inf, selectivity=1.0), CostModel())
    assert large.flow(0, 0b11111, predicates) == LARGEST / 5
    small = estimate(graph, even(5, rate=1e-200), CostModel())
    assert small.stored(0b11111, predicates) == 0.0
    none = estimate(graph, even(5, rate=0.0), CostModel())
    assert none.flow(0, 0b11111, predicates) == 0.0


@pytest.mark.parametrize("wrong", [{"tasks": 0}, {"storage_price": -1.0}, {"storage_price": math.nan}])
def test_a_cost_model_must_make_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="a cost model needs"):
        CostModel(**wrong)  # type: ignore[arg-type]
