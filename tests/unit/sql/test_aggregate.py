"""Aggregate calls: what is accumulated, how outputs are written over it, names and types."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.sql_streams import aggregation, bound, calls, one
from weft.plan.aggregation import AggregateCall, Aggregation, Function, GroupKey
from weft.plan.expression import Column, Opaque, to_sql
from weft.plan.query import Output
from weft.plan.types import BIGINT, INT
from weft.plan.window import Sliding

SECOND = timedelta(seconds=1)
PRICE = Column("price", INT)


def test_the_typical_aggregation() -> None:
    query = bound(
        "SELECT gemPack, SUM(price), COUNT(*) FROM purchases [RANGE 8 SECONDS SLIDE 4 SECONDS] "
        "WHERE price > 3 GROUP BY gemPack HAVING SUM(price) > 10"
    )
    assert query.outputs == (
        Output("gemPack", "`g0`", INT, "g0"),
        Output("sum(price)", "`a0`", BIGINT, "a0"),
        Output("count(1)", "`a1`", BIGINT, "a1"),
    )
    assert query.aggregation == Aggregation(
        (GroupKey(Column("gemPack", INT), 0, INT),),
        (AggregateCall(Function.SUM, (PRICE,), BIGINT), AggregateCall(Function.ROWS, (None,), BIGINT)),
        "`a0` > 10",
    )
    assert query.sliding == Sliding(8 * SECOND, 4 * SECOND)
    assert query.session is None
    assert query.relations[0].columns == ()
    assert query.relations[0].predicate is not None
    assert query.notices == ()


def test_other_queries_have_no_aggregation() -> None:
    query = bound("SELECT price FROM purchases [TUMBLE 5 SECONDS]")
    assert query.aggregation is None
    assert query.session is None


@pytest.mark.parametrize(
    ("text", "wanted", "type_"),
    [
        ("COUNT(*)", ("rows", ""), "bigint"),
        ("COUNT(1)", ("rows", ""), "bigint"),
        ("COUNT('x')", ("rows", ""), "bigint"),
        ("COUNT(NULL)", ("count", "CAST(NULL AS int)"), "bigint"),
        ("COUNT(price)", ("count", "`price`"), "bigint"),
        ("COUNT(tags)", ("count", "`tags`"), "bigint"),
        ("COUNT(addr.zip)", ("count", "(`addr`.`zip`)"), "bigint"),
        ("COUNT(ALL price)", ("count", "`price`"), "bigint"),
        ("COUNT(DISTINCT name)", ("count_distinct", "`name`"), "bigint"),
        ("count(DISTINCT (price))", ("count_distinct", "`price`"), "bigint"),
        ("approx_count_distinct(name)", ("approx_distinct", "`name`"), "bigint"),
        ("SUM(price)", ("sum", "`price`"), "bigint"),
        ("SUM(tiny)", ("sum", "`tiny`"), "bigint"),
        ("SUM(1)", ("sum", "CAST('1' AS int)"), "bigint"),
        ("SUM(score)", ("sum", "`score`"), "double"),
        ("SUM(ratio)", ("sum", "`ratio`"), "double"),
        ("SUM(cost)", ("sum", "`cost`"), "decimal(20,2)"),
        ("sum(price + 1)", ("sum", "(`price` + CAST('1' AS int))"), "bigint"),
        ("`sum`(purchases.PRICE)", ("sum", "`price`"), "bigint"),
        ("MIN(name)", ("min", "`name`"), "string"),
        ("MAX(ts)", ("max", "`ts`"), "timestamp"),
        ("MAX(cost)", ("max", "`cost`"), "decimal(10,2)"),
        ("MIN(upper(name))", ("min", "(upper(`name`))"), "string"),
        ("MAX(ok)", ("max", "`ok`"), "boolean"),
        ("percentile_approx(price, 0.5)", ("quantile", "`price`"), "int"),
        ("approx_percentile(ratio, 1)", ("quantile", "`ratio`"), "double"),
        ("percentile_approx(cost, 0.5)", ("quantile", "`cost`"), "decimal(10,2)"),
    ],
)
def test_plain_calls(text: str, wanted: tuple[str, ...], type_: str) -> None:
    query = one(text)
    assert calls(query) == [wanted]
    assert aggregation(query).calls[0].result.ddl() == type_
    output = query.outputs[0]
    assert (output.sql, output.source, output.type and output.type.ddl()) == ("`a0`", "a0", type_)


@pytest.mark.parametrize(
    ("text", "sql", "type_", "wanted"),
    [
        ("AVG(price)", "CAST(`a0` AS DOUBLE) / NULLIF(`a1`, 0)", "double", "sum count"),
        ("MEAN(ratio)", "CAST(`a0` AS DOUBLE) / NULLIF(`a1`, 0)", "double", "sum count"),
        (
            "avg(cost)",
            "CAST(`a0` / CAST(NULLIF(`a1`, 0) AS DECIMAL(20,0)) AS DECIMAL(14,6))",
            "decimal(14,6)",
            "sum count",
        ),
        (
            "avg(CAST(cost AS DECIMAL(38,37)))",
            "CAST(`a0` / CAST(NULLIF(`a1`, 0) AS DECIMAL(20,0)) AS DECIMAL(38,38))",
            "decimal(38,38)",
            "sum count",
        ),
        ("STDDEV(price)", "CASE WHEN `a0` > 1 THEN SQRT(`a1` / (`a0` - 1)) END", "double", "count spread"),
        ("std(ratio)", "CASE WHEN `a0` > 1 THEN SQRT(`a1` / (`a0` - 1)) END", "double", "count spread"),
        ("STDDEV_SAMP(ratio)", "CASE WHEN `a0` > 1 THEN SQRT(`a1` / (`a0` - 1)) END", "double", "count spread"),
        ("STDDEV_POP(ratio)", "CASE WHEN `a0` > 0 THEN SQRT(`a1` / `a0`) END", "double", "count spread"),
        ("VARIANCE(ratio)", "CASE WHEN `a0` > 1 THEN `a1` / (`a0` - 1) END", "double", "count spread"),
        ("VAR_SAMP(ratio)", "CASE WHEN `a0` > 1 THEN `a1` / (`a0` - 1) END", "double", "count spread"),
        ("VAR_POP(ratio)", "CASE WHEN `a0` > 0 THEN `a1` / `a0` END", "double", "count spread"),
        ("percentile_approx(price, array(0.5, 0.9))", "array(`a0`, `a1`)", "array<int>", "quantile quantile"),
        ("avg(price) + 1", "(CAST(`a0` AS DOUBLE) / NULLIF(`a1`, 0)) + 1", "double", "sum count"),
        ("sum(price) / count(*)", "`a0` / `a1`", "double", "sum rows"),
        ("-sum(price)", "-`a0`", "bigint", "sum"),
        ("upper(min(name))", "upper(`a0`)", "string", "min"),
        ("if(count(*) > 1, 'n', '`a0`')", "if(`a0` > 1, 'n', '`a0`')", "string", "rows"),
        ("CAST(sum(price) AS STRING)", "CAST(`a0` AS STRING)", "string", "sum"),
        ("max(ts) + INTERVAL 1 SECOND", "`a0` + INTERVAL '1' SECOND", "timestamp", "max"),
        ("1", "1", "int", ""),
    ],
)  # fmt: skip
def test_formulas(text: str, sql: str, type_: str, wanted: str) -> None:
    query = bound(f"SELECT {text} FROM purchases [TUMBLE 5 s] GROUP BY ()")
    output = query.outputs[0]
    assert (output.sql, output.type and output.type.ddl(), output.source) == (sql, type_, None)
    assert [call.function for call in aggregation(query).calls] == wanted.split()


def test_equal_calls_share_a_column() -> None:
    query = one(
        "avg(price), sum(price), COUNT(price), SUM( PRICE ) + count(*), count(1), stddev(price), var_pop(price)"
    )
    assert calls(query) == [
        ("sum", "`price`"), ("count", "`price`"), ("rows", ""), ("spread", "`price`"),
    ]  # fmt: skip
    assert query.outputs[3].sql == "`a0` + `a2`"
    ids = [call.id for call in aggregation(query).calls]
    assert len(set(ids)) == len(ids)


def test_the_sum_behind_an_average_of_bigints_has_room_for_it() -> None:
    query = one("avg(userID), sum(userID), avg(price)")
    results = [(call.function.value, call.result.ddl()) for call in aggregation(query).calls]
    assert results == [
        ("sum", "decimal(38,0)"), ("count", "bigint"), ("sum", "bigint"), ("sum", "bigint"), ("count", "bigint"),
    ]  # fmt: skip


def test_fractions_tell_quantiles_apart() -> None:
    query = one(
        "percentile_approx(price, 0.5), percentile_approx(price, array(0.25, 0.5)), percentile_approx(price, 0)"
    )
    assert [call.parameter for call in aggregation(query).calls] == [0.5, 0.25, 0.0]
    assert query.outputs[1].sql == "array(`a1`, `a0`)"


def test_the_accuracy_of_percentiles_is_not_used() -> None:
    query = one("percentile_approx(price, 0.5, 100)")
    assert query.notices == ("the accuracy of percentile_approx() is not used",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SUM(price)", "sum(price)"),
        ("COUNT(*)", "count(1)"),
        ("Count(DISTINCT price)", "count(DISTINCT price)"),
        ("MEAN(price + 1)", "mean((price + 1))"),
        ("Sum(price) / COUNT(*)", "(sum(price) / count(1))"),
        ("percentile_approx(price, 0.5)", "percentile_approx(price, 0.5, 10000)"),
        ("percentile_approx(price, ARRAY(0.5), 9)", "percentile_approx(price, array(0.5), 9)"),
        ("COUNT(*) FILTER (WHERE price > 1)", "count(1) FILTER (WHERE (price > 1))"),
        ("max(name) AS `x y`", "x y"),
        ("window_start", "window_start"),
        ("window", "window"),
        ("window.start", "start"),
        ("window.END", "END"),
        ("price % 10", "(price % 10)"),
        ("(purchases.price % 10)", "(price % 10)"),
    ],
)
def test_names(text: str, name: str) -> None:
    query = bound(f"SELECT {text} FROM purchases [TUMBLE 5 s] GROUP BY price % 10")
    assert query.outputs[0].name == name


def test_filter_becomes_case() -> None:
    query = one(
        "sum(price) FILTER (WHERE ok), count(*) FILTER (WHERE price > 3), count(DISTINCT name) FILTER (WHERE ok)"
    )
    assert calls(query) == [
        ("sum", "(CASE WHEN `ok` THEN `price` ELSE CAST(NULL AS int) END)"),
        ("count", "(CASE WHEN (`price` > CAST('3' AS int)) THEN CAST('1' AS int) ELSE CAST(NULL AS int) END)"),
        ("count_distinct", "(CASE WHEN `ok` THEN `name` ELSE CAST(NULL AS string) END)"),
    ]


def test_a_filter_only_spark_can_compute_keeps_the_type() -> None:
    query = one("sum(cost) FILTER (WHERE upper(name) = 'X'), avg(cost * 2) FILTER (WHERE ok)")
    assert [call.result.ddl() for call in aggregation(query).calls] == ["decimal(20,2)", "decimal(22,2)", "bigint"]
    argument = aggregation(query).calls[1].arguments[0]
    assert argument is not None
    assert to_sql(argument) == "(CAST(CASE WHEN `ok` THEN `cost` * 2 END AS DECIMAL(12,2)))"


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("cost * 2", "decimal(22,2)"),
        ("cost * price", "decimal(31,2)"),
        ("cost + 1.5", "decimal(21,2)"),
        ("cost - tiny", "decimal(21,2)"),
        ("cost / 3", "decimal(24,6)"),
        ("-cost", "decimal(20,2)"),
        ("abs(cost)", "decimal(20,2)"),
        ("cost * ratio", "double"),
        ("coalesce(cost, 0)", "decimal(22,2)"),
        ("if(ok, cost, 0)", "decimal(22,2)"),
        ("CASE WHEN ok THEN cost ELSE 0 END", "decimal(22,2)"),
        ("CASE WHEN ok THEN cost * 2 ELSE cost END", "decimal(22,2)"),
        ("CAST(name AS DECIMAL(30,4)) * cost", "decimal(38,6)"),
    ],
)
def test_sums_of_decimal_arithmetic(text: str, type_: str) -> None:
    query = one(f"sum({text})")
    assert query.outputs[0].type is not None
    assert query.outputs[0].type.ddl() == type_
    assert isinstance(aggregation(query).calls[0].arguments[0], Opaque)
    assert "evaluated by Spark" in query.notices[0]
