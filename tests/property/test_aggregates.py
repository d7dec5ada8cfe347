"""The oracle on aggregations and sessions small enough to be right by looking, and against the reference on others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import note

from tests.support.by_seed import by_seed
from tests.support.generators.cases import aggregate, alone, call, col, join, lit, row, schedule, windows
from tests.support.generators.data import DECIMAL
from tests.support.generators.features import Features
from tests.support.generators.workload import Batch, Create, Schedule, Sizes, draw_schedule
from tests.support.harness_api import Row
from tests.support.oracles.oracle import Lifetime, Oracle
from tests.support.oracles.reference import reference_for
from tests.support.run import play
from tests.support.spec import (
    Arith,
    Call,
    Compare,
    Having,
    Product,
    QuerySpec,
    Session,
    Sliding,
    Value,
    Window,
    WindowEdge,
)
from weft.plan.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING

SIZES = Sizes(rows=50, features=Features(aggregations=True))
NAN, INFINITY = float("nan"), float("inf")
END = {"l": [row(10**6, 0)], "r": [row(10**6, 0)]}
"""A batch after which the watermark is far behind the other rows."""


@by_seed(60)
def test_reference_agrees_with_oracle(seed: int) -> None:
    options = "--harness reference --rows 50 --aggregations"
    note(f"play it again: python -m tests.property.fuzz {options} --count 1 --seed {seed}")
    drawn = draw_schedule(seed, SIZES)
    play(drawn, reference_for(drawn), Path("in memory"))


def closed(query: QuerySpec, given_rows: Schedule, *, first: int = 0, end: int | None = None) -> list[Row]:
    """The oracle's rows with edges in microseconds."""
    return windows(alone(query, given_rows, first=first, end=end))


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (Sliding(4, 4), [(1, 4, 8), (2, 0, 4)]),
        (Sliding(4, 2), [(1, -2, 2), (1, 4, 8), (2, 0, 4), (2, 2, 6)]),
        (Sliding(1, 4), [(1, 4, 5)]),
        (Session(3), [(3, 1, 7)]),
        (Session(2), [(1, 1, 3), (2, 3, 6)]),
        (Session(1), [(1, 1, 2), (1, 3, 4), (1, 4, 5)]),
    ],
)
def test_windows(window: Window, rows: list[tuple[int, ...]]) -> None:
    given_rows = schedule({"l": [row(4, 1), row(1, 2), row(3, 3)]}, END, lateness=10)
    assert closed(aggregate(window), given_rows) == rows


@pytest.mark.parametrize(("top", "reported"), [(13, False), (14, True), (99, True)])
@pytest.mark.parametrize("window", [Sliding(4, 4), Session(4)])
def test_window_is_reported_when_the_watermark_is_at_its_end(window: Window, top: int, reported: bool) -> None:
    given_rows = schedule({"l": [row(0, 1)]}, {"l": [row(top, 2)]}, lateness=10)
    assert closed(aggregate(window), given_rows)[:1] == ([(1, 0, 4)] if reported else [])


def test_late_rows_move_no_window_and_count_in_none() -> None:
    given_rows = schedule({"l": [row(20, 1)]}, {"l": [row(9, 2), row(10, 3)]}, {"l": [row(25, 4)]}, lateness=10)
    assert closed(aggregate(Sliding(5, 5)), given_rows) == [(1, 10, 15)]
    assert closed(aggregate(Sliding(5, 5)), given_rows, end=2) == []


def test_join_waits_for_both_streams() -> None:
    query = aggregate(Sliding(4, 4), joined=True)
    given_rows = schedule({"l": [row(0, 1)], "r": [row(1, 2)]}, {"l": [row(99, 3)]}, {"r": [row(14, 4)]}, lateness=10)
    assert closed(query, given_rows, end=2) == []
    assert closed(query, given_rows) == [(1, 0, 4)]


def test_stream_without_rows_holds_a_join_back() -> None:
    given_rows = schedule({"l": [row(0, 1), row(99, 2)]}, lateness=0)
    with Oracle(given_rows) as oracle:
        assert oracle.watermark(aggregate(Sliding(4, 4)), 1) == 99
        assert oracle.watermark(aggregate(Sliding(4, 4), joined=True), 1) is None
        assert oracle.watermark(aggregate(Sliding(4, 4)), 0) is None
        assert oracle.rows(aggregate(Session(4), joined=True), Lifetime(0, 1)) == []


def test_windows_that_begin_before_the_start_are_not_reported() -> None:
    given_rows = schedule({"l": [row(3, 1)]}, {"l": [row(4, 2), row(6, 3)]}, END, lateness=10)
    assert closed(aggregate(Sliding(4, 2)), given_rows, first=1) == [(1, 6, 10), (2, 4, 8)]
    assert closed(aggregate(Session(4)), given_rows, first=1) == [(2, 4, 10)]


def test_dropped_query_reports_nothing_of_the_batches_after() -> None:
    given_rows = schedule({"l": [row(0, 1)]}, {"l": [row(14, 2)]}, {"l": [row(99, 3)]}, lateness=10)
    assert closed(aggregate(Sliding(4, 4)), given_rows, end=1) == []
    assert closed(aggregate(Sliding(4, 4)), given_rows, end=2) == [(1, 0, 4)]


K, X, D, S, B = col(0, "k"), col(0, "x"), col(0, "d"), col(0, "s"), col(0, "b")


@pytest.mark.parametrize(
    ("calls", "values"),
    [
        ((call("count"), call("count", K), call("distinct", K)), (4, 3, 2)),
        ((call("sum", K), call("min", K), call("max", K)), (6, 1, 4)),
        ((call("avg", K, DOUBLE), call("stddev", K, DOUBLE)), (2.0, pytest.approx(3**0.5))),
        ((call("sum", D, DECIMAL), call("max", D, DECIMAL)), (Decimal("0.40"), Decimal("0.10"))),
        ((call("avg", D, DECIMAL),), (pytest.approx(0.1),)),
        ((call("min", S, STRING), call("max", S, STRING), call("distinct", S)), ("a", "é", 3)),
        ((call("min", B, BOOLEAN), call("max", B, BOOLEAN)), (False, False)),
        ((call("min", X, DOUBLE), call("distinct", X)), (0.0, 2)),
        ((call("sum", Arith("+", K, lit(1, INT))),), (9,)),
    ],
)
def test_calls(calls: tuple[Call, ...], values: tuple[object, ...]) -> None:
    tenth = Decimal("0.10")
    rows = [
        row(1, 1, k=1, d=tenth, s="b", x=NAN),
        row(1, 2, k=None, d=tenth, s="a", x=None),
        row(2, 3, k=1, d=tenth, s=None, x=-0.0),
        row(2, 4, k=4, d=tenth, s="é", x=0.0),
    ]
    (found,) = alone(aggregate(Sliding(4, 4), *calls), schedule({"l": rows}, END, lateness=10))
    assert found[:-2] == values


@pytest.mark.parametrize("function", ["sum", "min", "max", "avg", "stddev"])
def test_no_values_give_null(function: str) -> None:
    query = aggregate(Sliding(4, 4), call(function, K), call("count", K), call("distinct", K))
    given_rows = schedule({"l": [row(1, 1, k=None), row(2, 2, k=None)]}, END, lateness=10)
    assert closed(query, given_rows) == [(None, 0, 0, 0, 4)]


@pytest.mark.parametrize(
    ("numbers", "total", "deviation"),
    [
        ([1.5], 1.5, None),
        ([INFINITY], INFINITY, None),
        ([1.5, 1.5], 3.0, 0.0),
        ([1.0, INFINITY], INFINITY, NAN),
        ([-INFINITY, INFINITY], NAN, NAN),
        ([1.0, NAN], NAN, NAN),
    ],
)
def test_doubles_that_are_no_numbers(numbers: list[Value], total: float, deviation: float | None) -> None:
    query = aggregate(Sliding(4, 4), call("sum", X, DOUBLE), call("avg", X, DOUBLE), call("stddev", X, DOUBLE))
    rows = [row(1, 1, x=number) for number in numbers]
    (found,) = alone(query, schedule({"l": rows}, END, lateness=10))
    mean = total / len(numbers)
    assert repr(found[:-2]) == repr((total, mean, deviation))


def test_null_and_not_a_number_and_zero_are_groups() -> None:
    rows = [row(1, n, x=x) for n, x in enumerate((None, None, NAN, NAN, NAN, 0.0, -0.0, 0.0, -0.0))]
    for window in (Sliding(4, 4), Session(3)):
        found = alone(aggregate(window, by=(X,)), schedule({"l": rows}, END, lateness=10))
        assert Counter((str(key).lstrip("-"), count) for key, count, *_ in found) == Counter(
            [("None", 2), ("nan", 3), ("0.0", 4)]
        )


def test_sessions_are_of_one_group_each() -> None:
    rows = [row(0, 1, k=1), row(2, 2, k=2), row(4, 3, k=1), row(5, 4, k=2)]
    given_rows = schedule({"l": rows}, END, lateness=10)
    assert closed(aggregate(Session(4), by=(K,)), given_rows) == [(1, 1, 0, 4), (1, 1, 4, 8), (2, 2, 2, 9)]
    assert closed(aggregate(Session(4)), given_rows) == [(4, 0, 9)]


def test_row_between_two_sessions_merges_them() -> None:
    given_rows = schedule({"l": [row(0, 1), row(6, 2)]}, {"l": [row(3, 3)]}, END, lateness=10)
    assert closed(aggregate(Session(4)), given_rows) == [(3, 0, 10)]


def test_having_decides_on_groups() -> None:
    rows = [row(0, 1, k=1), row(1, 2, k=1), row(2, 3, k=2), row(2, 4, k=None)]
    query = aggregate(Sliding(4, 4), by=(K,), having=Having(call("count"), ">", lit(1, BIGINT)))
    assert closed(query, schedule({"l": rows}, END, lateness=10)) == [(1, 2, 0, 4)]
    unknown = aggregate(Sliding(4, 4), by=(K,), having=Having(call("max", K), "<>", lit(1, BIGINT)))
    assert closed(unknown, schedule({"l": rows}, END, lateness=10)) == [(2, 1, 0, 4)]


def test_aggregates_over_a_join_are_over_its_pairs() -> None:
    left = [row(1, 1, i=2), row(3, 2, i=3)]
    right = [row(2, 3, i=10), row(5, 4, i=100), row(2, 5, k=9)]
    product = call("sum", Product(col(0, "i"), col(1, "i")))
    query = aggregate(Sliding(4, 2), call("count"), call("sum", col(0, "i")), product, joined=True)
    given_rows = schedule({"l": left, "r": right}, END, lateness=10)
    assert closed(query, given_rows) == [(2, 5, 50, 0, 4), (2, 6, 330, 2, 6)]


def test_session_join_pairs_all_of_a_session() -> None:
    edges = (WindowEdge("window_start"), WindowEdge("window_end"))
    plain = join(Session(4), Session(4))
    query = replace(plain, outputs=(*plain.outputs, *edges))
    left = [row(0, 1), row(6, 2), row(0, 3, k=None), row(50, 4)]
    right = [row(3, 5), row(20, 6), row(0, 7, k=None)]
    given_rows = schedule({"l": left, "r": right}, END, lateness=10)
    assert closed(query, given_rows) == [(1, 5, 0, 10), (2, 5, 0, 10)]
    assert closed(query, given_rows, end=1) == [(1, 5, 0, 10), (2, 5, 0, 10)]  # the watermark is at 10
    counted = aggregate(Session(4), call("count"), call("max", col(0, "n")), joined=True)
    assert closed(counted, given_rows) == [(2, 2, 0, 10)]


def test_only_tuples_that_pass_their_predicates_hold_a_session_together() -> None:
    plain = join(Session(4), Session(4))
    first, second = plain.relations
    filtered = replace(second, predicate=Compare("<>", col(1, "i"), lit(1, INT)))
    query = replace(plain, relations=(first, filtered))
    given_rows = schedule({"l": [row(0, 1)], "r": [row(3, 2, i=1), row(6, 3)]}, END, lateness=10)
    assert alone(query, given_rows) == []
    assert alone(plain, given_rows) == [(1, 2), (1, 3)]


def test_schedules_hold_every_kind_of_query_with_rows() -> None:
    """That they agree says something only if there is something to agree on."""
    with_rows: Counter[tuple[str, int, bool]] = Counter()
    for seed in range(40):
        drawn = draw_schedule(seed, SIZES)
        batches = 0
        with Oracle(drawn) as oracle:
            for step in drawn.steps:
                batches += isinstance(step, Batch)
                for query in step.queries if isinstance(step, Create) else ():
                    window = type(query.relations[0].window).__name__
                    if query.waits and oracle.rows(query, Lifetime(batches, len(drawn.steps))):
                        with_rows[window, len(query.relations), query.grouping is not None] += 1
    kinds = [(window, count, True) for window in ("Sliding", "Session") for count in (1, 2)]
    assert all(with_rows[kind] >= 3 for kind in (*kinds, ("Session", 2, False))), with_rows


def test_mixed_key_types_form_one_session() -> None:
    query = join(Session(4), Session(4), on=(col(0, "k"), col(1, "x")))
    given_rows = schedule({"l": [row(0, 1, k=1), row(0, 2, k=2)], "r": [row(3, 3, x=1.0)]}, END, lateness=10)
    assert alone(query, given_rows) == [(1, 3)]
