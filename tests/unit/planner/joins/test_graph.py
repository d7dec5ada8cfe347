from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.probe_cases import attribute, chain, condition, query, relation
from weft.errors import CrossProduct
from weft.plan.changelog import QueryId
from weft.plan.window import Range
from weft.planner.joins.graph import (
    JoinGraph,
    JoinInput,
    JoinQuery,
    bits,
    connected_subsets,
    is_connected,
    predicate_of,
)


def test_a_predicate_is_the_same_from_both_sides() -> None:
    assert condition("R.a = S.b") == condition("S.b = R.a")
    assert condition("R.a < S.b") == condition("S.b > R.a")
    assert condition("R.a <= S.b") != condition("S.b <= R.a")


def test_a_relation_under_another_window_or_role_is_another() -> None:
    texts = {JoinInput("R").text, JoinInput("R", 1).text, JoinInput("R", 0, Range(timedelta(seconds=8))).text}
    assert texts == {"R", "R#1", "R[RANGE 8 SECONDS]"}


def test_what_does_not_join_two_relations_is_refused() -> None:
    with pytest.raises(ValueError, match=r"R\.a = R\.b does not join two relations"):
        predicate_of(attribute("R.a"), attribute("R.b"))
    with pytest.raises(ValueError, match="not a comparison"):
        predicate_of(attribute("R.a"), attribute("S.b"), "~")


def test_a_query_without_a_connection_is_a_cross_product() -> None:
    with pytest.raises(CrossProduct, match="joins T by no predicate"):
        JoinQuery(QueryId("q"), (relation("R"), relation("S"), relation("T")), (condition("R.a = S.a"),))
    with pytest.raises(ValueError, match="a relation it does not join"):
        JoinQuery(QueryId("q"), (relation("R"),), (condition("R.a = S.a"),))
    with pytest.raises(ValueError, match="names no relation, or one twice"):
        JoinQuery(QueryId("q"), (), ())


def test_numbers_stay_when_queries_are_added() -> None:
    one, two = query("q", "R.a = S.a"), query("p", "S.a = T.a", "R.a = S.a")
    graph = JoinGraph().extended([one])
    larger = graph.extended([two])
    assert larger.inputs[: len(graph.inputs)] == graph.inputs
    assert larger.extended([one, two]) is larger
    assert larger.encode(one) == graph.encode(one) == (0b11, 0b1)


def test_connected_parts_of_a_chain_are_its_stretches() -> None:
    graph = JoinGraph().extended([chain(5)])
    inputs, predicates = graph.encode(chain(5))
    neighbours = graph.neighbours(predicates)
    parts = connected_subsets(inputs, neighbours)
    assert len(parts) == 5 + 4 + 3 + 2 + 1
    assert all(is_connected(part, neighbours) for part in parts)
    assert not is_connected(0b101, neighbours)
    assert graph.within(0b111, predicates).bit_count() == 2
    assert list(bits(0b1010)) == [1, 3]
    assert graph.names(0b101) == ("R0", "R2")
