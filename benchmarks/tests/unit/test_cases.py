from __future__ import annotations

from weft_bench.case import System, Variant
from weft_bench.cases import (
    AGGREGATE_LOAD,
    alternate,
    spark_aggregates,
    spark_joins,
    weft_aggregates,
    weft_joins,
)
from weft_bench.data import Load
from weft_bench.workload import LONGEST_AGGREGATE

LOAD = Load()


def test_joins_cover_what_is_to_be_shown() -> None:
    cases = [*weft_joins([1, 20, 100, 500, 1000], LOAD), *spark_joins([1, 5, 20], LOAD)]
    plain = {(c.system, c.queries) for c in cases if c.variant is Variant.PLAIN and c.files == 1}
    assert plain == {(System.WEFT, n) for n in (1, 20, 100, 500, 1000)} | {(System.SPARK, n) for n in (1, 5, 20)}
    assert {c.queries for c in cases if c.variant is Variant.ROWS} == {1, 100}
    assert {c.queries for c in cases if c.system is System.WEFT and c.files == 4} == {1, 20, 100}
    assert [c.queries for c in cases if c.variant is Variant.DELIVERED] == [20]
    assert {c.queries for c in cases if c.system is System.SPARK and c.files == 4} == {1, 20}


def test_aggregates_cover_what_is_to_be_shown() -> None:
    assert (AGGREGATE_LOAD.rate, AGGREGATE_LOAD.keys) == (400_000, 1_000)
    cases = [*weft_aggregates([1, 20, 100, 1000], AGGREGATE_LOAD), *spark_aggregates([1, 20], AGGREGATE_LOAD)]
    assert {(c.system, c.queries, c.files) for c in cases} == {
        *((System.WEFT, number, files) for number in (1, 20, 100, 1000) for files in (1, 4)),
        *((System.SPARK, number, files) for number in (1, 20) for files in (1, 4)),
    }
    assert all(case.seconds > 2 * LONGEST_AGGREGATE for case in cases if case.system is System.WEFT)


def test_one_query_sees_the_same_input_in_both_systems() -> None:
    weft = [(case.seconds, case.files) for case in weft_aggregates([1], LOAD)]
    assert [(case.seconds, case.files) for case in spark_aggregates([1], LOAD)] == weft


def test_systems_alternate() -> None:
    order = [case.system for case in alternate(weft_joins([20, 500], LOAD), spark_joins([5, 20], LOAD))]
    assert order == [System.WEFT, System.SPARK, System.WEFT, System.SPARK, System.WEFT, System.SPARK, System.WEFT]
