"""GROUP BY, HAVING, and the windows and joins that aggregations are over."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sql_streams import aggregation, bound, calls, joined, keys, one
from weft.errors import InvalidWindow, MissingWindow, QueryError, UnsupportedQuery
from weft.plan.aggregation import GroupKey
from weft.plan.expression import Column, Literal, Opaque, to_sql
from weft.plan.query import Output
from weft.plan.types import BIGINT, INT, STRING, TIMESTAMP
from weft.plan.window import EVERYTHING, Session, Sliding

SECOND = timedelta(seconds=1)
HALF = Sliding(8 * SECOND, 4 * SECOND)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT price % 10 AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY price % 10",
        "SELECT price % 10 AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY (PRICE % 10), purchases.price % 10",
        "SELECT price % 10 AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY 1",
        "SELECT price % 10 AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY B",
        "SELECT price % 10 AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY ALL",
        "SELECT (price % 10) AS b, count(*) FROM purchases [TUMBLE 5 s] GROUP BY ((price % 10))",
    ],
)
def test_ways_to_group(text: str) -> None:
    query = bound(text)
    (key,) = aggregation(query).keys
    assert (to_sql(key.expression), key.relation, key.type) == ("(`price` % CAST('10' AS int))", 0, INT)
    assert query.outputs[0] == Output("b", "`g0`", INT, "g0")


def test_expressions_over_group_expressions() -> None:
    query = bound(
        "SELECT (price + 1) * 2, userID + sum(price) x FROM purchases [TUMBLE 5 s] GROUP BY price + 1, userID"
    )
    assert [output.sql for output in query.outputs] == ["(`g0`) * 2", "`g1` + `a0`"]
    assert [output.type for output in query.outputs] == [INT, BIGINT]


def test_grouping_without_aggregates_gives_distinct_rows() -> None:
    query = bound("SELECT gemPack FROM purchases [TUMBLE 5 s] GROUP BY gemPack, userID")
    assert aggregation(query).calls == ()
    assert len(aggregation(query).keys) == 2


def test_a_column_goes_before_an_alias() -> None:
    query = bound("SELECT price % 2 AS userID, userID FROM purchases [TUMBLE 5 s] GROUP BY userID, price % 2")
    assert [to_sql(key.expression) for key in aggregation(query).keys] == ["`userID`", "(`price` % CAST('2' AS int))"]


def test_group_keys_only_spark_can_compute() -> None:
    query = bound("SELECT upper(name), count(*) FROM purchases [TUMBLE 5 s] GROUP BY UPPER(name)")
    assert aggregation(query).keys == (GroupKey(Opaque("UPPER(`name`)", ("name",), STRING), 0, STRING),)
    assert query.outputs[0].source == "g0"
    assert query.notices == ('group key "UPPER(`name`)" is evaluated by Spark: stream "purchases" takes the row path',)


def test_several_columns_in_parentheses() -> None:
    assert len(aggregation(bound("SELECT count(*) FROM purchases [TUMBLE 5 s] GROUP BY (price, name), ok")).keys) == 3


def test_having_takes_aliases_after_group_columns() -> None:
    query = bound(
        "SELECT gemPack, max(price) AS price, avg(price) m FROM purchases [TUMBLE 5 s] GROUP BY gemPack "
        "HAVING price > 5 AND gemPack < 3 AND m > 1 AND count(*) > 2"
    )
    assert aggregation(query).having == (
        "`a0` > 5 AND `g0` < 3 AND (CAST(`a1` AS DOUBLE) / NULLIF(`a2`, 0)) > 1 AND `a3` > 2"
    )


def test_having_alone_makes_an_aggregation() -> None:
    query = bound("SELECT 1 AS x FROM purchases [TUMBLE 5 s] HAVING count(*) > 2")
    assert aggregation(query).having == "`a0` > 2"
    assert query.outputs[0].sql == "1"


@pytest.mark.parametrize(
    ("relation", "group", "window"),
    [
        ("purchases [TUMBLE 5 SECONDS]", "", Sliding(5 * SECOND, 5 * SECOND)),
        ("purchases [SESSION 5 SECONDS]", "", Session(5 * SECOND)),
        ("purchases [session '1 minute']", "", Session(60 * SECOND)),
        ("purchases", "GROUP BY window(ts, '8 seconds')", Sliding(8 * SECOND, 8 * SECOND)),
        ("purchases", "GROUP BY WINDOW(ts, '8 seconds', '4 seconds')", HALF),
        ("purchases p", "GROUP BY window(p.ts, INTERVAL 8 SECONDS, INTERVAL '4' SECOND)", HALF),
        ("purchases", "GROUP BY session_window(TS, '5 seconds')", Session(5 * SECOND)),
        ("purchases", "GROUP BY window(ts, '1 minute 30 seconds')", Sliding(90 * SECOND, 90 * SECOND)),
        ("purchases", "GROUP BY name, window(ts, '8 s', '4 s'), window(ts, '8000 ms', '4 s'), window_start", HALF),
        ("odd", "GROUP BY window(`event time`, '5 seconds')", Sliding(5 * SECOND, 5 * SECOND)),
    ],
)  # fmt: skip
def test_windows_of_aggregations(relation: str, group: str, window: Sliding | Session) -> None:
    query = bound(f"SELECT count(*), window_start, window_END AS e FROM {relation} {group}")
    assert (query.sliding or query.session) == window
    assert query.relations[0].window == window
    assert len(aggregation(query).keys) == group.count("name")
    assert query.outputs[1] == Output("window_start", "`window_start`", TIMESTAMP, "window_start")
    assert query.outputs[2] == Output("e", "`window_end`", TIMESTAMP, "window_end")


@pytest.mark.parametrize(
    ("kind", "call"),
    [("window", "window(ts, '8 seconds', '4 seconds')"), ("session_window", "session_window(ts, '8 seconds')")],
)
def test_windows_as_spark_selects_them(kind: str, call: str) -> None:
    query = bound(
        f"SELECT {kind}, {kind}.start, {kind}.end AS e, {call}, {call}.start, count(*) FROM purchases GROUP BY {call}"
    )
    both = "named_struct('start', `window_start`, 'end', `window_end`)"
    assert [output.sql for output in query.outputs[:5]] == [
        both,
        "`window_start`",
        "`window_end`",
        both,
        "`window_start`",
    ]
    assert [output.name for output in query.outputs[:5]] == [kind, "start", "e", kind, "start"]
    assert query.outputs[0].type is not None
    assert query.outputs[0].type.ddl() == "struct<start:timestamp,end:timestamp>"
    assert query.outputs[2].source == "window_end"


def test_a_window_by_its_alias() -> None:
    for group in ("w", "1", "ALL"):
        query = bound(
            f"SELECT window(ts, '8 seconds') AS w, count(*) AS n FROM purchases GROUP BY {group} "
            "HAVING w.start > TIMESTAMP'2020-01-01' AND n > 1"
        )
        assert query.sliding == Sliding(8 * SECOND, 8 * SECOND)
        assert aggregation(query).having == "`window_start` > CAST('2020-01-01' AS TIMESTAMP) AND `a0` > 1"
    query = bound("SELECT window(ts, '8 seconds') AS window, count(*) FROM purchases GROUP BY window")
    assert query.outputs[0].name == "window"


def test_what_is_computed_from_the_window_is_no_key() -> None:
    query = bound(
        "SELECT date_trunc('HOUR', window_start) AS h, window.end, count(*) FROM purchases [TUMBLE 5 s] "
        "GROUP BY date_trunc('HOUR', window_start), window_end, window, userID"
    )
    assert [to_sql(key.expression) for key in aggregation(query).keys] == ["`userID`"]
    assert query.outputs[0] == Output("h", "date_trunc('HOUR', `window_start`)", TIMESTAMP, doubtful=True)


def test_a_window_is_needed() -> None:
    with pytest.raises(MissingWindow) as missing:
        bound("SELECT count(*) FROM purchases")
    assert missing.value.hint == (
        "Write purchases [TUMBLE 5 SECONDS], [RANGE 8 SECONDS SLIDE 4 SECONDS] or [SESSION 5 SECONDS], "
        "or GROUP BY window(ts, '5 seconds')."
    )
    with pytest.raises(InvalidWindow) as invalid:
        bound("SELECT count(*) FROM purchases [UNBOUNDED]")
    assert "[TUMBLE 5 SECONDS]" in invalid.value.hint


def test_end_and_window_are_still_keywords() -> None:
    query = bound("SELECT CASE WHEN ok THEN 1 ELSE 2 END AS x FROM purchases [RANGE 5 s] AS p WHERE tags[0] = 'a'")
    assert query.outputs[0].type == INT
    with pytest.raises(UnsupportedQuery, match="WINDOW"):
        bound("SELECT count(*) FROM purchases [TUMBLE 5 s] WINDOW w AS (PARTITION BY name)")


def test_session_joins() -> None:
    query = bound(
        "SELECT p.price, window_start, window_end FROM purchases [SESSION 5 s] p JOIN ads [SESSION 5 s] USING (userID)"
    )
    assert query.session == Session(5 * SECOND)
    assert query.sliding is None
    assert query.bounds == EVERYTHING
    assert query.outputs[1].source == "window_start"
    assert query.relations[0].columns == ("price",)
    assert keys(query) == [("`userID`", "`userID`", "bigint")]
    with pytest.raises(InvalidWindow, match="neither groups nor a join") as caught:
        bound("SELECT price FROM purchases [SESSION 5 s]")
    assert "GROUP BY" in caught.value.hint


def test_keys_and_calls_of_a_join() -> None:
    query = joined(
        "p.gemPack, label, count(*), sum(p.price), max(a.label), count(a.fee)", "GROUP BY p.gemPack, a.label"
    )
    assert [(key.relation, to_sql(key.expression)) for key in aggregation(query).keys] == [
        (0, "`gemPack`"),
        (1, "`label`"),
    ]
    assert calls(query) == [("rows", "", ""), ("sum", "`price`", ""), ("max", "", "`label`"), ("count", "", "`fee`")]
    assert [relation.columns for relation in query.relations] == [(), ()]
    assert keys(query) == [("`userID`", "`userID`", "bigint")]
    assert query.sliding == Sliding(5 * SECOND, 5 * SECOND)
    assert len(query.relations) == 2


@pytest.mark.parametrize(
    ("text", "left", "right", "type_"),
    [
        ("p.price * a.gemPack", "`price`", "`gemPack`", "bigint"),
        ("a.gemPack * p.price", "`price`", "`gemPack`", "bigint"),
        ("p.ratio * a.gemPack", "`ratio`", "`gemPack`", "double"),
        ("p.cost * a.fee", "`cost`", "`fee`", "decimal(33,5)"),
        ("p.price * a.fee", "`price`", "`fee`", "decimal(33,3)"),
        ("2 * p.price * a.gemPack", "(CAST('2' AS int) * `price`)", "`gemPack`", "bigint"),
        ("p.price * (a.gemPack * 2)", "(`price` * CAST('2' AS int))", "`gemPack`", "bigint"),
        ("p.price * a.gemPack * (p.price + 1)", "(`price` * (`price` + CAST('1' AS int)))", "`gemPack`", "bigint"),
        ("(p.price + 1) * (a.gemPack - 1)", "(`price` + CAST('1' AS int))", "(`gemPack` - CAST('1' AS int))", "bigint"),
    ],
)  # fmt: skip
def test_sums_of_products(text: str, left: str, right: str, type_: str) -> None:
    query = joined(f"sum({text})")
    assert calls(query) == [("sum", left, right)]
    assert aggregation(query).calls[0].result.ddl() == type_


def test_averages_of_products_count_the_pairs() -> None:
    query = joined("avg(p.price * a.gemPack), count(p.price * a.gemPack)")
    assert calls(query) == [("sum", "`price`", "`gemPack`"), ("count", "`price`", "`gemPack`")]
    assert [output.sql for output in query.outputs] == ["CAST(`a0` AS DOUBLE) / NULLIF(`a1`, 0)", "`a1`"]


def test_filters_go_to_their_relation() -> None:
    query = joined(
        "count(*) FILTER (WHERE a.gemPack > 3), sum(p.price) FILTER (WHERE p.ok), "
        "sum(p.price * a.gemPack) FILTER (WHERE a.gemPack > 3), sum(p.price) FILTER (WHERE TRUE)"
    )
    found = calls(query)
    assert (found[0][1], found[1][2], found[2][1]) == ("", "", "`price`")
    assert found[0][2].startswith("(CASE WHEN (`gemPack` >")
    assert found[1][1].startswith("(CASE WHEN `ok` THEN `price`")
    assert "THEN `gemPack`" in found[2][2]
    assert "WHEN TRUE THEN `price`" in found[3][1]


def test_constants_of_a_join_belong_to_the_first_relation() -> None:
    query = joined("sum(1), min('x')", "GROUP BY 'k'")
    assert [call.arguments for call in aggregation(query).calls] == [
        (Literal(1, INT), None), (Literal("x", STRING), None),
    ]  # fmt: skip
    assert aggregation(query).keys == (GroupKey(Literal("k", STRING), 0, STRING),)


def test_spread_and_quantile_of_the_second_relation() -> None:
    query = joined("stddev(a.gemPack), percentile_approx(a.gemPack, 0.5)")
    pack = Column("gemPack", INT)
    assert [call.arguments for call in aggregation(query).calls[1:]] == [(None, pack), (None, pack)]


def test_grouping_by_a_column_of_using() -> None:
    query = bound(
        "SELECT userID, count(*) FROM purchases [TUMBLE 5 s] JOIN ads [TUMBLE 5 s] USING (userID) GROUP BY userID"
    )
    assert aggregation(query).keys == (GroupKey(Column("userID", BIGINT), 0, BIGINT),)


def test_aggregation_over_a_self_join() -> None:
    query = bound(
        "SELECT sum(x.price * y.price) FROM purchases [SESSION 5 s] x JOIN purchases [SESSION 5 s] y USING (userID)"
    )
    assert calls(query) == [("sum", "`price`", "`price`")]
    assert [relation.role for relation in query.relations] == [0, 1]
    assert query.session == Session(5 * SECOND)


def test_long_queries_are_no_trouble() -> None:
    many = ", ".join(f"sum(price + {i})" for i in range(1500))
    query = one(many)
    assert len(aggregation(query).calls) == 1500
    having = " AND ".join(f"sum(price) <> {i}" for i in range(1500))
    query = bound(f"SELECT ok AND price > 1 FROM purchases [TUMBLE 5 s] GROUP BY ok AND price > 1 HAVING {having}")
    assert aggregation(query).having is not None


def test_text_that_looks_like_a_column_stays_text() -> None:
    query = one("concat(max(name), '`a0`', \"(`a1`)\") AS x, avg(price) AS y")
    assert query.outputs[0].sql == "concat(`a0`, '`a0`', '(`a1`)')"


_PARTS = st.sampled_from(
    "gemPack|userID|price|sum(price)|count(*)|avg(cost)|window_start|window.end|gemPack + 1|max(name)|1|NULL|"
    "count(DISTINCT name)|stddev(ratio)|upper(name)|price % 2|window(ts, '5 seconds')|sum(sum(price))|n|*".split("|")
)


@settings(deadline=None)
@given(
    st.lists(_PARTS, min_size=1, max_size=4),
    st.lists(_PARTS, max_size=3),
    st.one_of(st.none(), _PARTS),
    st.sampled_from(["", "[TUMBLE 5 s]", "[SESSION 5 s]", "[RANGE 5 s]"]),
)
def test_any_aggregation_is_bound_or_refused(
    selected: list[str], grouped: list[str], having: str | None, window: str
) -> None:
    text = f"SELECT {', '.join(selected)} FROM purchases {window}"
    text += f" GROUP BY {', '.join(grouped)}" if grouped else ""
    text += f" HAVING {having} IS NOT NULL" if having else ""
    with suppress(QueryError):
        query = bound(text)
        assert query.aggregation is None or (query.sliding is None) is not (query.session is None)
        assert not any("weft" in output.sql for output in query.outputs)
        assert replace(query, sql="") == replace(bound(text.replace(" FROM ", "\nfrom\t")), sql="")
