"""What the engine refuses although it binds."""

from __future__ import annotations

import pytest

from tests.unit.engine.sample import JOIN, STREAMS, WINDOW
from weft.engine.analysis import check_types
from weft.errors import UnsupportedQuery
from weft.sql import bind

THREE = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q USING (k) JOIN c {WINDOW} r USING (k)"
THETA = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k AND p.x < q.x"
TIMES = f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.ts < q.ts"


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (THREE.replace("p.x", "COUNT(*)").replace("[RANGE", "[TUMBLE"), "aggregates over joins of 3 relations"),
        (
            THETA.replace("p.x F", "COUNT(*) F").replace("[RANGE", "[TUMBLE"),
            "aggregates over joins by other conditions",
        ),
    ],
)
def test_joins_without_an_operator_are_refused(sql: str, what: str) -> None:
    with pytest.raises(UnsupportedQuery, match=what) as caught:
        check_types(bind(sql, STREAMS), STREAMS, None)
    assert "joined by equalities alone" in caught.value.hint


@pytest.mark.parametrize("sql", [JOIN, JOIN + " AND p.ts < q.ts", "SELECT x FROM a WHERE x > 1", THREE, THETA, TIMES])
def test_what_can_be_run_passes_without_spark(sql: str) -> None:
    query = bind(sql, STREAMS)
    assert check_types(query, STREAMS, None) is query
