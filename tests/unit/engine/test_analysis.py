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
        (THREE, "joins of 3 relations"),
        (THREE + " WHERE p.x < r.x", "joins of 3 relations"),
        (THETA, "joins with other conditions than equalities"),
        (TIMES, "joins with other conditions than equalities"),
    ],
)
def test_joins_without_an_operator_are_refused(sql: str, what: str) -> None:
    with pytest.raises(UnsupportedQuery, match=what) as caught:
        check_types(bind(sql, STREAMS), STREAMS, None)
    assert "at most two relations" in caught.value.hint
    assert "equalities" in caught.value.hint


@pytest.mark.parametrize("sql", [JOIN, JOIN + " AND p.ts < q.ts", "SELECT x FROM a WHERE x > 1"])
def test_what_can_be_run_passes_without_spark(sql: str) -> None:
    query = bind(sql, STREAMS)
    assert check_types(query, STREAMS, None) is query
