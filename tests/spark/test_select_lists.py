"""A SELECT list that fails on a row: the same error for live and ended queries, and the rows before it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark.support import Place, rows, steps
from weft.errors import QueryFailed

pytestmark = pytest.mark.spark
LISTS = [
    "100 / (v - 3)",
    "array(1, 2)[v]",
    "CAST(v * 10000000 AS DECIMAL(10, 2))",
    "CAST(concat(v, substr('0123456789', 1, v)) AS INT)",
    "make_date(2020, v * 4, 1)",
]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("sql", LISTS)
def test_rows_before_the_failing_one(place: Place, sql: str, ended: bool) -> None:
    engine = place.engine()
    place.streams(engine, "a")
    query = engine.create(f"SELECT {sql} AS x FROM a")
    for number, value in enumerate((1, 1, 3 if "- 3" in sql else 20, 1)):
        place.put("a", (number, 1, value))
        engine.step()
    if ended:
        query.drop()
        steps(engine)
    found: list[Any] = []
    error = ""
    try:
        for table in query.tables(0, engine.core.next_batch):
            found += table.column("x").to_pylist()
    except QueryFailed as failed:
        error = failed.detail
    assert len(found) == 2, "the rows of the batches before"
    assert error
    assert query.state == "failed"
    with pytest.raises(QueryFailed):
        list(query.tail())
    assert len(rows(query)) == 2, "a DataFrame has the rows before the one that ended the query"
