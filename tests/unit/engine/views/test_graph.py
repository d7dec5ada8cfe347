"""The shared plan as a graph: every query is reached from its streams, and operators know whom they serve."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, open_core, rows
from tests.support.harness import CoreHarness
from weft.engine.views.operator_rates import rows_through
from weft.engine.views.plan_graph import Graph, NodeKind, plan_graph, query_node
from weft.engine.views.what_if import what_if
from weft.sql import bind

THETA = "SELECT p.x, q.x AS y FROM a [RANGE 5 SECONDS] p JOIN b [RANGE 5 SECONDS] q ON p.x < q.x"
RANGE, TUMBLE = "[RANGE 5 SECONDS]", "[TUMBLE 10 SECONDS]"
THREE = f"SELECT p.x FROM a {RANGE} p JOIN b {RANGE} q ON p.k = q.k JOIN c {RANGE} r ON q.k = r.k"
COUNTED = f"SELECT p.k, COUNT(*) AS n FROM a {TUMBLE} p JOIN b {TUMBLE} q ON %s GROUP BY p.k"
QUERIES = {
    "selection": "SELECT x FROM a WHERE x > 3",
    "join": JOIN,
    "theta": THETA,
    "three": THREE,
    "grouped": "SELECT k, COUNT(*) AS n FROM a [TUMBLE 10 SECONDS] GROUP BY k",
    "sessions": "SELECT k, COUNT(*) AS n FROM a [SESSION 10 SECONDS] GROUP BY k",
    "session-join": "SELECT p.x FROM a [SESSION 5 SECONDS] p JOIN b [SESSION 5 SECONDS] q ON p.k = q.k",
    "grouped-join": COUNTED % "p.k = q.k",
    "grouped-theta": COUNTED % "p.x < q.x",
}


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def graph_of(harness: CoreHarness) -> Graph:
    return plan_graph(harness.core.plan, harness.core.streams)


def reached(graph: Graph, stream: str) -> set[str]:
    found, way = {f"stream:{stream}"}, {f"stream:{stream}"}
    while way:
        way = {b for a, b in graph.edges if a in way} - found
        found |= way
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_reached_from_its_streams(harness: CoreHarness, name: str) -> None:
    harness.create(QUERIES[name], name)
    graph = graph_of(harness)
    assert all(a in graph.nodes and b in graph.nodes for a, b in graph.edges)
    streams = {relation.stream for live in harness.core.plan.queries for relation in live.query.relations}
    for stream in streams:
        assert query_node(name) in reached(graph, stream)


def test_all_of_them_together_are_one_graph(harness: CoreHarness) -> None:
    for name, sql in QUERIES.items():
        harness.create(sql, name)
    graph = graph_of(harness)
    assert {node.kind for node in graph.nodes.values()} == set(NodeKind)
    for live in harness.core.plan.queries:
        mine = {node.id for node in graph.of(live.slot)}
        used = [a for a, b in graph.edges if b == query_node(live.record.name)]
        assert used
        assert set(used) <= mine


def test_queries_share_nodes(harness: CoreHarness) -> None:
    harness.create(JOIN, "first")
    harness.create(JOIN, "second")
    joins = [node for node in graph_of(harness).nodes.values() if node.kind is NodeKind.JOIN]
    assert [node.slots for node in joins] == [0b11]


def test_a_stream_that_nobody_reads_is_there_alone(harness: CoreHarness) -> None:
    graph = graph_of(harness)
    assert set(graph.nodes) >= {"stream:a", "stream:b"}
    assert graph.edges == ()


def test_rows_go_through_nodes_of_the_graph(harness: CoreHarness) -> None:
    for name in ("selection", "join"):
        harness.create(QUERIES[name], name)
    graph = graph_of(harness)
    harness.batch({"a": [rows((0, 1, 5))], "b": [rows((0, 1, 6))]})
    through = rows_through(harness.core.inventory.results[-1], harness.core.planning.flows)
    assert set(through) <= set(graph.nodes)
    assert through["stream:a"] == 1


def test_what_a_query_would_add(harness: CoreHarness) -> None:
    first = what_if(harness.core, bind(JOIN, harness.core.streams))
    assert {node.kind for node in first.nodes} == {NodeKind.STREAM, NodeKind.SELECTION, NodeKind.STORE, NodeKind.JOIN}
    assert first.new == {node.id for node in first.nodes}
    harness.create(JOIN, "there")
    assert what_if(harness.core, bind(JOIN, harness.core.streams)).new == frozenset()
    assert len(harness.core.roster.live) == 1


def test_what_it_would_cost(harness: CoreHarness) -> None:
    """Two streams of the same rate r: reading, selecting and storing take r each, the join takes both."""
    harness.create(JOIN, "there")
    for second in range(3):
        harness.batch({"a": [rows((second, 1, 5))], "b": [rows((second, 1, 5))]})
    shared = what_if(harness.core, bind(JOIN, harness.core.streams))
    assert shared.cost_added == 0
    assert shared.cost_alone == pytest.approx(4 * shared.rows_per_second)
    other = what_if(harness.core, bind(JOIN.replace("p.k = q.k", "p.x = q.x"), harness.core.streams))
    assert {node.kind for node in other.nodes if node.id in other.new} == {NodeKind.STORE, NodeKind.JOIN}
    assert other.cost_alone == pytest.approx(4 * other.rows_per_second)
    assert other.cost_added == pytest.approx(2 * other.rows_per_second)
    assert f"adds {other.cost_added:,.0f} rows per second of work" in other.text


def test_a_store_without_rows_gives_none(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE x > 100", "rare")
    for second in range(3):
        harness.batch({"a": [rows((second, 1, 5))]})
    found = what_if(harness.core, bind("SELECT x FROM a WHERE x > 50", harness.core.streams))
    assert found.cost_added == 0
    assert found.takes["stream:a"] > 0


@pytest.mark.parametrize("name", QUERIES)
def test_what_if_agrees_with_what_comes(harness: CoreHarness, name: str) -> None:
    harness.create(QUERIES["selection"], "other")
    harness.create(QUERIES["join"], "another")
    imagined = what_if(harness.core, bind(QUERIES[name], harness.core.streams))
    harness.create(QUERIES[name], "real")
    live = next(each for each in harness.core.plan.queries if each.record.name == "real")
    there = {node.id for node in graph_of(harness).of(live.slot) if node.kind is not NodeKind.QUERY}
    assert {node.id for node in imagined.nodes} == there
