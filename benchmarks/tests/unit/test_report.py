from __future__ import annotations

import json
from io import StringIO

from rich.console import Console

from weft_bench.case import Case, Kind, Outcome, System, Variant
from weft_bench.report import GIGABYTE, summarize, to_json, to_tables, verdicts

WEFT = Case(System.WEFT, 1, 20)
MEASURED = [
    (WEFT, Outcome(900.0, 0.1, 5, pss=3 * GIGABYTE, rss=4 * GIGABYTE)),
    (Case(System.SPARK, 1, 14), Outcome(90.0, 1.0, 5)),
    (Case(System.SPARK, 1, 20, files=4), Outcome(100.0, 4.0, 5)),
    (Case(System.SPIKE, 1, 20), Outcome(1200.0, 0.1)),
    (Case(System.WEFT, 1, 14, variant=Variant.ROWS), Outcome(300.0, 0.3, 5)),
    (WEFT, Outcome(700.0, 0.3, 5, pss=2 * GIGABYTE, rss=5 * GIGABYTE)),
    (Case(System.WEFT, 1000, 14), Outcome(50.0, 2.0, 5, pss=5 * GIGABYTE)),
]


def test_medians_over_rounds_and_peaks() -> None:
    line = summarize(MEASURED)[0]
    assert (line.rows_per_second, line.batch_seconds) == (800.0, 0.2)
    assert (line.pss, line.rss) == (3 * GIGABYTE, 5 * GIGABYTE)


def test_ratios_are_to_the_best_at_the_same_number_of_queries() -> None:
    lines = {(line.case.label, line.case.queries): line for line in summarize(MEASURED)}
    assert lines["weft", 1].over_spark == 8.0
    assert lines["weft row path", 1].over_spark == 3.0
    assert lines["weft", 1].over_spike == 800.0 / 1200.0
    assert lines["weft", 1000].over_spark is None
    assert lines["spark 4 files", 1].over_spark is None


def test_bars_hold_for_the_plain_case_only() -> None:
    found = {verdict.what: verdict.met for verdict in verdicts(summarize(MEASURED))}
    assert found == {
        "joins: weft over Spark at N = 1": True,
        "joins: weft over the spike at N = 1": False,
        "joins: peak memory in GB at N = 1000, at most": False,
    }


def test_a_spark_that_did_nothing_gives_no_ratio() -> None:
    [line, _] = summarize([(WEFT, Outcome(1.0)), (Case(System.SPARK, 1, 4), Outcome(0.0))])
    assert line.over_spark is None
    assert verdicts([line]) == []


def aggregate(system: System, queries: int, rate: float, files: int = 1) -> tuple[Case, Outcome]:
    return Case(system, queries, 24, files, kind=Kind.AGGREGATES), Outcome(rate, 1.0, 5)


AGGREGATES = [
    aggregate(System.WEFT, 1, 100.0),
    aggregate(System.WEFT, 1, 200.0, 4),
    aggregate(System.SPARK, 1, 180.0),
    aggregate(System.SPARK, 1, 160.0, 4),
    aggregate(System.WEFT, 20, 150.0),
    aggregate(System.SPARK, 20, 10.0),
    aggregate(System.SPARK, 20, 11.0, 4),
    aggregate(System.WEFT, 100, 110.0),
    aggregate(System.WEFT, 100, 130.0, 4),
    aggregate(System.WEFT, 1000, 9.0),
]


def test_aggregates_have_bars_of_their_own() -> None:
    found = {verdict.what: (verdict.measured, verdict.met) for verdict in verdicts(summarize(AGGREGATES))}
    assert found == {
        "aggregates: weft over Spark at N = 1": (200.0 / 180.0, True),
        "aggregates: weft over Spark at N = 20": (150.0 / 11.0, False),
        "aggregates: weft at N = 100 over weft at N = 1, 1 files per batch": (1.1, True),
        "aggregates: weft at N = 100 over weft at N = 1, 4 files per batch": (0.65, True),
        "aggregates: rows/s at N = 1000, which has to run": (9.0, True),
    }


def test_many_aggregates_that_do_not_run_miss_the_bar() -> None:
    [verdict] = verdicts(summarize([aggregate(System.WEFT, 1000, 0.0)]))
    assert not verdict.met


def test_kinds_are_not_compared_with_each_other() -> None:
    lines = summarize([(WEFT, Outcome(900.0)), aggregate(System.SPARK, 1, 1.0), aggregate(System.WEFT, 1, 5.0)])
    assert [line.over_spark for line in lines] == [None, None, 5.0]
    assert [table.title for table in to_tables(lines)] == [
        "joins: input rows per second of the whole set of N queries",
        "aggregates: input rows per second of the whole set of N queries",
    ]


def test_table_and_json_say_the_same() -> None:
    lines = summarize(MEASURED)
    console = Console(width=120, record=True, file=StringIO())
    for table in to_tables(lines):
        console.print(table)
    text = console.export_text()
    assert "800" in text
    assert "8.00" in text
    values = json.loads(json.dumps(to_json(lines)))
    assert [value["label"] for value in values][:2] == ["weft", "spark"]
    assert values[-1]["query_rows_per_second"] == 50_000.0
