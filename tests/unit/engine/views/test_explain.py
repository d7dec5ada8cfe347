"""What a query's own explanation says of its life; the plans themselves are in tests/golden/plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import JOIN, open_core, rows
from tests.support.harness import CoreHarness
from weft.engine.views.plan_text import explain_plan, explain_query
from weft.plan.changelog import LiveQuery
from weft.planner.strategy import choose_strategy


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state")


def explain(harness: CoreHarness, name: str) -> list[str]:
    record = harness._record(name)
    query = harness.core.roster.bound_query(record.id)
    live = LiveQuery(record, query, choose_strategy(query, record.route))
    return explain_query(live, harness.core.plan, harness.core.streams).splitlines()


def test_a_query_says_where_it_is_in_its_life(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE 10 div x > 1", "fails")
    harness.create("SELECT x FROM a", "goes")
    harness.batch({"a": [rows((0, 1, 0))]})
    harness.drop("goes")
    harness.create("SELECT x\n  FROM   a", "stays")
    assert explain(harness, "fails")[0].startswith("query fails (q1): failed in batch 0: ")
    assert explain(harness, "goes")[0] == "query goes (q2): dropped before batch 1"
    assert explain(harness, "stays")[:2] == ["query stays (q3): slot 0, live since batch 1", "  SELECT x FROM a"]


def test_an_ended_query_has_no_stores(harness: CoreHarness) -> None:
    harness.create(JOIN, "q")
    harness.batch({"a": [rows((0, 1, 0))]})
    harness.drop("q")
    assert not any("shared with" in line for line in explain(harness, "q"))


def test_notices_are_shown(harness: CoreHarness) -> None:
    harness.create("SELECT x FROM a WHERE upper(s) = 'A'", "q")
    assert any(line.startswith("  notice: ") and "evaluated by Spark" in line for line in explain(harness, "q"))


def test_no_queries_are_a_plan_too(harness: CoreHarness) -> None:
    assert (
        explain_plan(harness.core.plan, harness.core.streams)
        == "shared plan: 0 queries, 0 stores, 0 joins, 0 aggregates, query-sets of 1 x 64 bits"
    )


def test_aggregates_over_combinations_say_what_they_are_of(harness: CoreHarness) -> None:
    window = "[TUMBLE 10 SECONDS]"
    sql = f"SELECT q.k, SUM(p.x) FROM a {window} p JOIN b {window} q ON p.x < q.x GROUP BY q.k"
    harness.create(sql, "first")
    harness.create(sql.replace("SUM(p.x)", "COUNT(*)"), "second")
    text = "store 3: windows of a#0 ⋈ b#0 by `b#0.k`"
    plan = explain_plan(harness.core.plan, harness.core.streams).splitlines()
    assert plan[plan.index(f"  {text}") + 1] == "    accumulates rows, sum `a#0.x`"
    assert f"  {text}; shared with second" in explain(harness, "first")
    assert "  runs as an aggregate over a join by probe trees" in explain(harness, "first")
