from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest

from weft.planner.highs import (
    INFINITY,
    Feasible,
    Model,
    NoAnswer,
    Optimal,
    Relaxation,
    SolverLimits,
    gap_of,
    relax,
    solve,
)


def triangle() -> Model:
    """Cover three edges of a triangle by two corners: the relaxation takes half of each."""
    model = Model()
    corners = [model.add_column(cost, integer=True) for cost in (3.0, 2.0, 4.0)]
    for at in range(3):
        model.add_row([corners[at], corners[(at + 1) % 3]], [1.0, 1.0], low=1.0, high=INFINITY)
    return model


def test_an_optimum_is_checked_and_priced() -> None:
    found = solve(triangle(), SolverLimits())
    assert isinstance(found, Optimal)
    assert found.values == (1.0, 1.0, 0.0)
    assert (found.cost, found.bound) == (5.0, 5.0)
    assert found.time >= timedelta(0)


def test_a_known_answer_is_taken() -> None:
    assert isinstance(solve(triangle(), SolverLimits(), first=[1.0, 1.0, 1.0]), Optimal)


def test_the_relaxation_is_a_lower_bound() -> None:
    found = relax(triangle(), SolverLimits())
    assert isinstance(found, Relaxation)
    assert found.cost == pytest.approx(4.5)
    assert found.values == pytest.approx((0.5, 0.5, 0.5))


def test_what_cannot_be_has_no_answer() -> None:
    model = triangle()
    model.add_row([0], [1.0], low=2.0, high=3.0)
    assert isinstance(solve(model, SolverLimits()), NoAnswer)
    assert isinstance(relax(model, SolverLimits()), NoAnswer)


def test_without_time_there_is_no_proof() -> None:
    found = solve(_hard(), SolverLimits(time=timedelta(0)))
    assert isinstance(found, NoAnswer | Feasible)


def test_nothing_to_choose_costs_nothing() -> None:
    assert solve(Model(), SolverLimits()) == Optimal((), 0.0, 0.0)
    assert relax(Model(), SolverLimits()) == Relaxation((), 0.0, ())


def test_the_same_seed_gives_the_same_answer() -> None:
    limits = SolverLimits(seed=7)
    assert replace(solve(_hard(), limits), time=timedelta(0)) == replace(solve(_hard(), limits), time=timedelta(0))


@pytest.mark.parametrize(
    ("values", "broken"),
    [
        ((1.0, 1.0, 0.0), ""),
        ((2.0, 1.0, 0.0), "column 0 is 2.0"),
        ((0.5, 1.0, 1.0), "column 0 is 0.5, not a whole number"),
        ((1.0, 0.0, 0.0), "row 1 is 0.0"),
    ],
)
def test_values_are_checked_in_python(values: tuple[float, ...], broken: str) -> None:
    assert triangle().violation(values) == broken


def test_the_gap_is_a_fraction_of_the_cost() -> None:
    assert gap_of(100.0, 99.0) == pytest.approx(0.01)
    assert gap_of(100.0, 100.0) == gap_of(0.0, -math.inf) == 0.0
    assert gap_of(100.0, -math.inf) == gap_of(5.0, 0.0) == 1.0


def test_limits_must_make_sense() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        SolverLimits(gap=-0.1)
    with pytest.raises(ValueError, match="must not be negative"):
        SolverLimits(time=timedelta(seconds=-1))


def _hard() -> Model:
    """A knapsack with many equals."""
    model = Model()
    columns = [model.add_column(-(10.0 + at % 7), integer=True) for at in range(40)]
    model.add_row(columns, [3.0 + at % 5 for at in range(40)], low=-INFINITY, high=61.0)
    return model
