"""Ids by which rows and results are found on disk: those of one release are those of the next.

If one of these has to change, state directories of the release before cannot be read: raise `FORMAT` in
`storage/directory.py`. They are written out here so that nobody changes them by updating a file.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from tests.support.engine_sample import STREAMS, live
from weft.engine.queries.identity import identified
from weft.plan.expression import Call, Column, Expression, Literal, Opaque
from weft.plan.identity import identity
from weft.plan.key import key_column
from weft.plan.types import BIGINT, BOOLEAN, INT, STRING, DataType, Kind
from weft.planner.stores import stored_relations
from weft.planner.strategy import choose_strategy
from weft.sql import bind

WINDOW, SESSION = "[RANGE 10 SECONDS]", "[SESSION 3 SECONDS]"
EXPRESSIONS: dict[str, Expression] = {
    "`a``b`": Column("a`b", BIGINT),
    "(`k` + CAST('1' AS bigint))": Call("add", (Column("k", BIGINT), Literal(1, BIGINT)), BIGINT),
    "'it\\'s \\\\ ${x}'": Literal("it's \\ ${x}", STRING),
    "like(`s`, 'a%')": Call("like", (Column("s", STRING), Literal("a%", STRING)), BOOLEAN),
    "not(is_null(`s`))": Call("not", (Call("is_null", (Column("s", STRING),), BOOLEAN),), BOOLEAN),
    "CAST(`s` AS int)": Call("cast", (Column("s", STRING),), INT),
    "(date_trunc('HOUR', `ts`))": Opaque("date_trunc('HOUR', `ts`)", ("ts",)),
    "CAST(NULL AS bigint)": Literal(None, BIGINT),
    "TRUE": Literal(True, BOOLEAN),
    "DATE'2024-02-29'": Literal(date(2024, 2, 29), DataType(Kind.DATE)),
    "TIMESTAMP'2024-02-29 01:02:03.000004'": Literal(datetime(2024, 2, 29, 1, 2, 3, 4, UTC), DataType(Kind.TIMESTAMP)),
    "X'00ff'": Literal(b"\x00\xff", DataType(Kind.BINARY)),
    "CAST('1.50' AS decimal(5,2))": Literal(Decimal("1.50"), DataType(Kind.DECIMAL, 5, 2)),
}
QUERIES: dict[str, tuple[str, ...]] = {
    "SELECT x FROM a WHERE x > 2": ("53432acb089d", "53432acb089d"),
    f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k": ("23c5daa63124", "5d21caeb04d2", "bbae1b3d75d3"),
    f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.s = q.s AND p.k + 1 = q.j": (
        *("0afd2788700f", "7c6fcc4823a7", "9c94011b8e06"),
    ),
    f"SELECT p.x FROM a {WINDOW} p JOIN a {WINDOW} q ON p.k = q.j": ("23c5daa63124", "f2e36180494b", "90b27d92ce15"),
    f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON date_trunc('HOUR', p.ts) = q.ts": (
        *("abec6101ad5d", "eb29f6e44d6f", "9a3c6f2e4ec3"),
    ),
    "SELECT k, COUNT(*), SUM(x) FROM a [TUMBLE 4 SECONDS] GROUP BY k": ("1bfb58c294d0", "63c5acf9504f"),
    "SELECT upper(s), MAX(x) FROM a [TUMBLE 4 SECONDS] GROUP BY upper(s)": ("e80440e4bf90", "03ebd71cbf01"),
    "SELECT k, COUNT(*) FROM a [TUMBLE 4 SECONDS] p JOIN b [TUMBLE 4 SECONDS] q USING (k) GROUP BY k": (
        *("bbff8764eca5", "c691e4452c49", "8858538c0810"),
    ),
    f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.k = q.k JOIN c {WINDOW} r ON q.j = r.j": (
        *("61e21b0bb1a8", "ac80dcdb2ae9", "260f42db39e0", "b533ca221ff6"),
    ),
    f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.x < q.x AND p.k = q.k": (
        *("61e21b0bb1a8", "ac80dcdb2ae9", "64a6336daa5d"),
    ),
    f"SELECT p.x FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k": ("23c5daa63124", "5d21caeb04d2", "dba861542c23"),
    f"SELECT p.k, COUNT(*) FROM a {SESSION} p JOIN b {SESSION} q ON p.k = q.k GROUP BY p.k": (
        *("aaf3b0d0942d", "725b43668761", "e6ceff3b1ca7"),
    ),
    f"SELECT k, COUNT(*) FROM a {SESSION} GROUP BY k": ("d36d035cee79", "886bd8c649ca"),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_texts_of_expressions(text: str) -> None:
    assert identity(EXPRESSIONS[text]) == text


@pytest.mark.parametrize("sql", QUERIES)
def test_ids_of_stores_and_results(sql: str) -> None:
    each = live(sql)
    record = identified(each.record, each.query)
    assert (*record.stores, record.source) == QUERIES[sql]


def test_ids_of_indexes_and_columns() -> None:
    query = bind(f"SELECT p.x FROM a {WINDOW} p JOIN b {WINDOW} q ON p.s = q.s AND p.k + 1 = q.j", STREAMS)
    first, second = stored_relations(choose_strategy(query, (0, 1)))
    assert first.index is not None
    assert second.index is not None
    assert (first.index.id, second.index.id) == ("092cb142b89b", "9d7b29127655")
    assert [key_column(part) for part in first.index.key] == ["weft#k:(`k` + CAST('1' AS bigint))", "s"]
