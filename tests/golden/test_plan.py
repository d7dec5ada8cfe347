"""Shared plans as text: `plan/*.txt` hold queries, one "name: SQL" a line, then `----`, then the expected plan.

The queries are created one after the other. `make golden-update` rewrites the expected part; read what changed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.engine_sample import STREAMS, new_roster
from weft.engine.views.plan_text import explain_plan, explain_query
from weft.planner.joins.planners import Measured, plan_probes
from weft.planner.plan import plan_queries
from weft.sql import bind

CASES = sorted(Path(__file__).parent.glob("plan/*.txt"))
RULE = "----\n"


def explain(text: str) -> str:
    """The shared plan of some "name: SQL" lines, and each query's part of it."""
    roster = new_roster()
    for line in text.strip().splitlines():
        name, _, sql = line.partition(": ")
        roster.request([(name, bind(sql, STREAMS))], [])
        roster.fold(roster.change(0, {}))
        roster.acknowledge(roster.ready())
    plan = plan_queries(roster.live.values(), STREAMS, Measured(), planner=plan_probes).plan
    queries = [explain_query(live, plan, STREAMS) for live in plan.queries]
    return "\n\n".join([explain_plan(plan, STREAMS), *queries]) + "\n"


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_plan(path: Path, request: pytest.FixtureRequest) -> None:
    queries, _, expected = path.read_text(encoding="utf-8").partition(RULE)
    found = explain(queries)
    if request.config.getoption("--update"):
        path.write_text(queries + RULE + found, encoding="utf-8")
    else:
        assert found == expected, "run `make golden-update` if the change is meant"


def test_there_are_cases() -> None:
    assert len(CASES) >= 8
