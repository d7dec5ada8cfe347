from __future__ import annotations

import pytest

from weft_bench.workloads.duckdb_text import duckdb_text
from weft_bench.workloads.flink_text import flink_text
from weft_bench.workloads.model import Dialect
from weft_bench.workloads.say import query_of
from weft_bench.workloads.shapes import (
    Aggregate,
    CannotSay,
    Function,
    Grouped,
    NearJoin,
    Output,
    Relation,
    Selection,
    Session,
    Sliding,
    WindowJoin,
    aliases,
    all_of,
    columns_of,
    flat,
    newest,
)
from weft_bench.workloads.spark_text import spark_text
from weft_bench.workloads.weft_text import weft_text

A, B, C = (Relation(name, name.lower()) for name in "ABC")
JOIN = NearJoin((A, B), ("a.k = b.k", "a.f0 > 3", "b.f1 < 4"), (Output("a.k", "k"),), seconds=2)
CHAIN = NearJoin((A, B, C), ("a.k = b.k", "b.f2 = c.f3", "c.f0 = 1"), (Output("c.f4", "x"),), seconds=2)
COUNTED = Aggregate(Function.COUNT, "*", "n")
GROUPED = Grouped((A,), ("a.f0 > 3",), (Output("a.k", "k"),), (COUNTED,), Sliding(6, 2))
SUMMED = Aggregate(Function.SUM, "b.f1", "total")
OVER_JOIN = Grouped((A, B), ("a.k = b.k",), (Output("a.k", "k"),), (SUMMED,), Sliding(4, 2), observed=True)
PAIRS = WindowJoin((A, B), ("a.k = b.k",), (Output("a.f0", "x"),), Sliding(8, 4))


def test_a_selection_reads_alike_everywhere() -> None:
    shape = Selection(A, ("a.f0 = 1 OR a.f0 = 2", "a.k < 9"), (Output("a.k", "k"),))
    query = query_of("q", shape)
    assert set(query.texts) == set(Dialect)
    assert set(query.texts.values()) == {
        "SELECT a.ts AS ts, a.k AS k FROM A AS a WHERE (a.f0 = 1 OR a.f0 = 2) AND a.k < 9"
    }
    assert query.newest == ("ts",)


def test_a_near_join() -> None:
    outputs = "a.k AS k FROM A {}AS a JOIN B {}AS b ON a.k = b.k"
    where = "WHERE a.f0 > 3 AND b.f1 < 4"
    windows = ("[RANGE 2 SECONDS] ",) * 2
    assert weft_text(JOIN) == f"SELECT a.ts AS a_ts, b.ts AS b_ts, {outputs.format(*windows)} {where}"
    assert spark_text(JOIN) == (
        f"SELECT a.ts AS a_ts, b.ts AS b_ts, {outputs.format('', '')} "
        f"AND b.ts > a.ts - INTERVAL 2 SECONDS AND b.ts < a.ts + INTERVAL 2 SECONDS {where}"
    )
    assert flink_text(JOIN) == (
        "SELECT CAST(a.ts AS TIMESTAMP_LTZ(3)) AS a_ts, CAST(b.ts AS TIMESTAMP_LTZ(3)) AS b_ts, "
        f"{outputs.format('', '')} AND b.ts > a.ts - INTERVAL '2' SECOND AND b.ts < a.ts + INTERVAL '2' SECOND {where}"
    )
    assert duckdb_text(JOIN) == (
        f"SELECT a.ts AS a_ts, b.ts AS b_ts, {outputs.format('', '')} "
        f"AND abs(epoch_us(b.ts) - epoch_us(a.ts)) < 2000000 {where}"
    )
    assert newest(JOIN) == ("a_ts", "b_ts")


def test_a_chain_keeps_one_event_time_in_spark_and_flink() -> None:
    assert spark_text(CHAIN) == (
        "SELECT j.a_ts AS a_ts, timestamp_micros(j.b_ts) AS b_ts, timestamp_micros(j.c_ts) AS c_ts, c_f4 AS x FROM ("
        "SELECT j.a_ts AS a_ts, j.a_k AS a_k, j.b_ts AS b_ts, j.b_f2 AS b_f2, j.b_k AS b_k, "
        "unix_micros(c.ts) AS c_ts, c.f3 AS c_f3, c.f4 AS c_f4 FROM ("
        "SELECT a.ts AS a_ts, a.k AS a_k, unix_micros(b.ts) AS b_ts, b.f2 AS b_f2, b.k AS b_k "
        "FROM A AS a JOIN B AS b ON a.k = b.k "
        "AND b.ts > a.ts - INTERVAL 2 SECONDS AND b.ts < a.ts + INTERVAL 2 SECONDS"
        ") AS j JOIN C AS c ON j.b_f2 = c.f3 "
        "AND c.ts > j.a_ts - INTERVAL 2 SECONDS AND c.ts < j.a_ts + INTERVAL 2 SECONDS "
        "AND abs(unix_micros(c.ts) - j.b_ts) < 2000000 WHERE c.f0 = 1"
        ") AS j"
    )
    flink = flink_text(CHAIN)
    assert "CAST(b.ts AS TIMESTAMP_LTZ(3)) AS b_ts" in flink
    assert "c.ts > j.b_ts - INTERVAL '2' SECOND AND c.ts < j.b_ts + INTERVAL '2' SECOND" in flink


def test_rows_that_come_after_others() -> None:
    shape = NearJoin((A, B), ("a.k = b.k",), (), seconds=2, after=True)
    assert "b.ts >= a.ts" in weft_text(shape)
    assert "b.ts >= a.ts AND b.ts < a.ts + INTERVAL 2 SECONDS" in spark_text(shape)
    assert "b.ts >= a.ts AND b.ts < a.ts + INTERVAL '2' SECOND" in flink_text(shape)
    assert "epoch_us(b.ts) - epoch_us(a.ts) BETWEEN 0 AND 1999999" in duckdb_text(shape)


def test_a_window_join() -> None:
    window = "[RANGE 8 SECONDS SLIDE 4 SECONDS]"
    assert weft_text(PAIRS) == (
        f"SELECT a.ts AS a_ts, b.ts AS b_ts, window_start, a.f0 AS x FROM A {window} AS a JOIN B {window} AS b "
        "ON a.k = b.k"
    )
    assert "window(a.ts, '8 seconds', '4 seconds') AS w FROM A AS a" in spark_text(PAIRS)
    assert " ON b.w = a.w AND a.k = b.k" in spark_text(PAIRS)
    assert (
        "TABLE(HOP(DATA => (SELECT a.ts, a.f0, a.k FROM A AS a), TIMECOL => DESCRIPTOR(ts), "
        "SLIDE => INTERVAL '4' SECOND, SIZE => INTERVAL '8' SECOND)) AS a"
    ) in flink_text(PAIRS)
    assert "a.k = b.k AND b.window_start = a.window_start AND b.window_end = a.window_end" in flink_text(PAIRS)


def test_groups_of_sliding_windows() -> None:
    assert weft_text(GROUPED) == (
        "SELECT a.k AS k, window_start, COUNT(*) AS n FROM A [RANGE 6 SECONDS SLIDE 2 SECONDS] AS a WHERE a.f0 > 3 "
        "GROUP BY a.k"
    )
    assert spark_text(GROUPED) == (
        "SELECT a.k AS k, window.start AS window_start, COUNT(*) AS n FROM A AS a WHERE a.f0 > 3 "
        "GROUP BY a.k, window(a.ts, '6 seconds', '2 seconds')"
    )
    assert flink_text(GROUPED) == (
        "SELECT a.k AS k, a.window_start AS window_start, COUNT(*) AS n FROM TABLE(HOP(DATA => (SELECT a.ts, a.k "
        "FROM A AS a WHERE a.f0 > 3), TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '2' SECOND, "
        "SIZE => INTERVAL '6' SECOND)) AS a GROUP BY a.k, a.window_start, a.window_end"
    )
    assert newest(GROUPED) == ()


def test_groups_of_tumbling_windows() -> None:
    shape = Grouped((A,), (), (), (COUNTED,), Sliding(120, 120), having="COUNT(*) > 2", observed=True)
    assert weft_text(shape) == (
        "SELECT window_start, COUNT(*) AS n, MAX(a.ts) AS newest FROM A [TUMBLE 120 SECONDS] AS a HAVING COUNT(*) > 2"
    )
    assert spark_text(shape).endswith("GROUP BY window(a.ts, '120 seconds') HAVING COUNT(*) > 2")
    assert "TUMBLE(DATA => (SELECT a.ts FROM A AS a)" in flink_text(shape)
    assert "SIZE => INTERVAL '120' SECOND(3)" in flink_text(shape), "an interval has two digits unless it says more"
    assert "epoch_us(a.ts) // 120000000 * 120000000 AS opened" in duckdb_text(shape)
    assert newest(shape) == ("newest",)


def test_a_length_that_is_no_multiple_of_the_slide_takes_flinks_older_form() -> None:
    shape = Grouped((A,), (), (Output("a.k", "k"),), (COUNTED,), Sliding(5, 3))
    sizes = "a.ts, INTERVAL '3' SECOND, INTERVAL '5' SECOND"
    assert flink_text(shape) == (
        f"SELECT a.k AS k, HOP_START({sizes}) AS window_start, COUNT(*) AS n FROM A AS a GROUP BY a.k, HOP({sizes})"
    )


def test_flink_cannot_say_that_over_a_join() -> None:
    query = query_of("q", Grouped((A, B), ("a.k = b.k",), (), (COUNTED,), Sliding(5, 3)))
    assert set(query.texts) == {Dialect.WEFT, Dialect.SPARK, Dialect.DUCKDB}
    assert "multiple of the slide, not 5 s and 3 s" in query.why_not[Dialect.FLINK]


def test_spark_cannot_count_what_is_distinct() -> None:
    shape = Grouped((A,), (), (), (Aggregate(Function.DISTINCT, "a.k", "d", "a.f0 > 3"),), Sliding(5, 5))
    assert "COUNT(DISTINCT a.k) FILTER (WHERE a.f0 > 3) AS d" in weft_text(shape)
    with pytest.raises(CannotSay, match="DISTINCT"):
        spark_text(shape)


def test_sessions() -> None:
    shape = Grouped((A,), ("a.f0 > 3",), (Output("a.k", "k"),), (COUNTED,), Session(10))
    assert "FROM A [SESSION 10 SECONDS] AS a WHERE a.f0 > 3 GROUP BY a.k" in weft_text(shape)
    assert "session_window.start AS window_start" in spark_text(shape)
    assert "session_window(a.ts, '10 seconds')" in spark_text(shape)
    assert (
        "TABLE(SESSION(DATA => (SELECT a.ts, a.k FROM A AS a WHERE a.f0 > 3) PARTITION BY k, "
        "TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '10' SECOND)) AS a"
    ) in flink_text(shape), "rows are selected before they form sessions"


def test_aggregates_over_a_join_show_how_new_both_sides_are() -> None:
    assert newest(OVER_JOIN) == ("a_newest", "b_newest")
    assert "MAX(a.ts) AS a_newest, MAX(b.ts) AS b_newest" in weft_text(OVER_JOIN)
    assert spark_text(OVER_JOIN) == (
        "SELECT a_k AS k, w.start AS window_start, SUM(b_f1) AS total, timestamp_micros(MAX(a_ts)) AS a_newest, "
        "timestamp_micros(MAX(b_ts)) AS b_newest FROM ("
        "SELECT j.w AS w, j.a_ts AS a_ts, j.a_k AS a_k, b.us AS b_ts, b.f1 AS b_f1, b.k AS b_k FROM ("
        "SELECT a.w AS w, a.us AS a_ts, a.k AS a_k FROM ("
        "SELECT a.k, unix_micros(a.ts) AS us, window(a.ts, '4 seconds', '2 seconds') AS w FROM A AS a) AS a"
        ") AS j JOIN ("
        "SELECT b.f1, b.k, unix_micros(b.ts) AS us, window(b.ts, '4 seconds', '2 seconds') AS w FROM B AS b) AS b "
        "ON b.w = j.w AND j.a_k = b.k) GROUP BY a_k, w"
    )


def test_flink_sums_and_averages_in_the_types_of_the_others() -> None:
    extra = (SUMMED, Aggregate(Function.AVG, "b.f1", "mean"))
    text = flink_text(Grouped((B,), (), (), extra, Sliding(4, 2)))
    assert "SUM(CAST(b.f1 AS BIGINT)) AS total, AVG(CAST(b.f1 AS DOUBLE)) AS mean" in text


def test_functions_with_another_name() -> None:
    outputs = (Output("SPLIT_PART(a.url, '/', 4)", "x"), Output("HOUR(a.ts)", "h"))
    shape = Selection(A, (), outputs)
    assert flink_text(shape) == "SELECT a.ts AS ts, SPLIT_INDEX(a.url, '/', 3) AS x, HOUR(a.ts) AS h FROM A AS a"
    assert "hour(make_timestamp(epoch_us(a.ts))) AS h" in duckdb_text(shape)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sliding(2, 3),
        lambda: Sliding(2, 0),
        lambda: WindowJoin((A, B, C), (), (), Sliding(2, 2)),
        lambda: NearJoin((A, B, C), (), (), 2, after=True),
        lambda: Grouped((A, B), (), (), (), Session(2)),
    ],
)
def test_what_nobody_can_say_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=r"cannot slide|two relations|one of two|one relation"):
        make()


def test_columns_in_expressions() -> None:
    text = "ps.cost + s.k * 0.908E0 > a.ts"
    assert aliases(text) == {"ps", "s", "a"}
    assert columns_of("s", [text]) == ["k"]
    assert columns_of("a", [text]) == [], "the event time goes by itself"
    assert flat(text, [Relation("suppliers", "s")], "j.") == "ps.cost + j.s_k * 0.908E0 > a.ts"
    assert all_of([]) == ""
