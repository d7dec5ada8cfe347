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


def counted(sql: str, select: str = "COUNT(*)", window: str = "[TUMBLE 10 SECONDS]") -> str:
    """The join as an aggregation."""
    return sql.replace("SELECT p.x", f"SELECT {select}").replace(WINDOW, window)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        (counted(THREE, "MAX(upper(p.s))"), r"upper\(`s`\)\) is computed by Spark .* over joins of 3 relations"),
        (counted(THETA, "COUNT(*)") + " GROUP BY upper(q.s)", "is computed by Spark .* over joins by other conditions"),
    ],
)
def test_what_has_no_operator_is_refused(sql: str, what: str) -> None:
    with pytest.raises(UnsupportedQuery, match=what) as caught:
        check_types(bind(sql, STREAMS), STREAMS, None)
    assert caught.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        JOIN, JOIN + " AND p.ts < q.ts", "SELECT x FROM a WHERE x > 1", THREE, THETA, TIMES,
        counted(THREE, "q.k, SUM(p.x * r.x), MIN(q.s)") + " GROUP BY q.k",
        counted(THETA, window="[RANGE 10 SECONDS SLIDE 5 SECONDS]"),
        counted(THREE, window="[SESSION 5 SECONDS]"), THETA.replace(WINDOW, "[SESSION 5 SECONDS]"),
    ],
)  # fmt: skip
def test_what_can_be_run_passes_without_spark(sql: str) -> None:
    query = bind(sql, STREAMS)
    assert check_types(query, STREAMS, None) is query
