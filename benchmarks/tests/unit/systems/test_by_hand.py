from __future__ import annotations

import pytest

from weft_bench.systems.by_hand import share_by_hand
from weft_bench.workloads.aggregation import aggregation
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import CannotSay, NearJoin, Output, Relation, Selection

A, B = Relation("A", "a"), Relation("B", "b")


def join(left: str, right: str, seconds: int) -> NearJoin:
    return NearJoin((A, B), ("a.k = b.k", left, right), (Output("a.k", "k"), Output("a.f0 + b.f1", "sum")), seconds)


def test_joins_share_the_widest_window_and_the_rows_that_any_wants() -> None:
    found = share_by_hand([join("a.f0 > 3", "b.f1 < 4", 1), join("a.f2 > 5", "b.f1 < 4", 3)])
    assert found.text == (
        "SELECT a.ts AS a_ts, a.f0 AS a_f0, a.f2 AS a_f2, a.k AS a_k, b.ts AS b_ts, b.f1 AS b_f1, b.k AS b_k "
        "FROM A AS a JOIN B AS b ON a.k = b.k "
        "AND b.ts > a.ts - INTERVAL 3 SECONDS AND b.ts < a.ts + INTERVAL 3 SECONDS "
        "WHERE ((a.f0 > 3) OR (a.f2 > 5)) AND ((b.f1 < 4))"
    )
    assert found.queries[0] == (
        "SELECT a_ts, b_ts, a_k AS k, a_f0 + b_f1 AS sum FROM shared WHERE a_k = b_k AND a_f0 > 3 AND b_f1 < 4 "
        "AND b_ts > a_ts - INTERVAL 1 SECONDS AND b_ts < a_ts + INTERVAL 1 SECONDS"
    )


def test_selections_share_the_rows_that_any_wants() -> None:
    outputs = (Output("a.k", "k"),)
    found = share_by_hand([Selection(A, ("a.f0 > 3", "a.f1 > 4"), outputs), Selection(A, ("a.f0 = 1",), outputs)])
    assert found.text == "SELECT * FROM A AS a WHERE ((a.f0 > 3) AND (a.f1 > 4) OR (a.f0 = 1))"
    assert found.queries[1] == "SELECT a.ts AS ts, a.k AS k FROM shared AS a WHERE a.f0 = 1"


def test_a_selection_of_everything_leaves_nothing_out() -> None:
    found = share_by_hand([Selection(A, (), ()), Selection(A, ("a.f0 = 1",), ())])
    assert found.text == "SELECT * FROM A AS a WHERE TRUE"


def test_what_cannot_be_shared_says_so() -> None:
    queries = aggregation().queries
    assert isinstance(queries, QueryList)
    with pytest.raises(CannotSay, match="cannot be shared by hand"):
        share_by_hand([queries.shape(0), queries.shape(1)])
    with pytest.raises(CannotSay, match="different streams"):
        share_by_hand([Selection(A, (), ()), Selection(B, (), ())])
    with pytest.raises(CannotSay, match="cannot be shared by hand: no shared pass"):
        share_by_hand([NearJoin((A, B), ("a.k < b.k",), (), 1)])
