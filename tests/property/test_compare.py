"""Multisets of rows: what counts as the same, and what does not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.generators.cases import aggregate, call, col
from tests.support.generators.data import DECIMAL, from_micros
from tests.support.oracles.compare import compare_rows
from tests.support.spec import Call, QuerySpec, Sliding
from weft.plan.types import DOUBLE

EDGES = (from_micros(0), from_micros(4))
NAN = float("nan")
SUM = call("sum", col(0, "x"), DOUBLE)
MEAN = call("avg", col(0, "d"), DECIMAL)
SKETCH = call("approx_distinct", col(0, "k"))


def query(*calls: Call) -> QuerySpec:
    return aggregate(Sliding(4, 4), *calls)


@pytest.mark.parametrize(
    ("aggregate_call", "got", "want", "same"),
    [
        (SUM, 0.1 + 0.2, 0.3, True),
        (SUM, 0.30001, 0.3, False),
        (SUM, 1e-17, 0.0, True),
        (SUM, 1e10, 1e10 + 100, False),
        (SUM, NAN, NAN, True),
        (SUM, NAN, 0.0, False),
        (SUM, float("inf"), float("inf"), True),
        (SUM, float("inf"), float("-inf"), False),
        (SUM, float("inf"), 1e300, False),
        (SUM, None, None, True),
        (SUM, None, 0.0, False),
        (SUM, 0.0, None, False),
        (MEAN, Decimal("0.333333"), 1 / 3, True),
        (MEAN, Decimal("0.333330"), 1 / 3, False),
        (SKETCH, 3, 5, True),
        (SKETCH, 2, 5, False),
        (SKETCH, 95, 100, True),
        (SKETCH, 111, 100, False),
        (call("min", col(0, "x"), DOUBLE), 0.1 + 0.2, 0.3, False),
        (call("count"), 1, 2, False),
    ],
)
def test_nearness(aggregate_call: Call, got: object, want: object, same: bool) -> None:
    text = compare_rows(query(aggregate_call), got=[(got, *EDGES)], want=[(want, *EDGES)])
    assert (text == "") == same, text


def test_near_values_are_matched_among_rows_of_equal_exact_values() -> None:
    given = query(call("count"), SUM, SUM)
    tiny = 2**-53
    want = [(1, 1.0, 5.0, *EDGES), (1, 1.0 + tiny * 2, 3.0, *EDGES), (2, 1.0, 5.0, *EDGES)]
    got = [(2, 1.0, 5.0, *EDGES), (1, 1.0 + tiny * 2, 5.0, *EDGES), (1, 1.0, 3.0, *EDGES)]
    assert compare_rows(given, got=got, want=want) == ""
    assert "1 missing, 1 too many" in compare_rows(given, got=[*got[:2], (2, 1.0, 3.0, *EDGES)], want=want)
    assert "1 missing, 0 too many" in compare_rows(given, got=got[1:], want=want)
    assert "0 missing, 1 too many" in compare_rows(given, got=[*got, got[0]], want=want)


def test_a_number_of_another_class_is_seen() -> None:
    assert "must be a int is a float" in compare_rows(query(), got=[(1.0, *EDGES)], want=[(1, *EDGES)])
    assert "must be a Decimal is a float" in compare_rows(query(MEAN), got=[(0.5, *EDGES)], want=[(0.5, *EDGES)])
