from __future__ import annotations

from typing import Any

import pytest

from weft_bench.systems.flink_session import root_cause
from weft_bench.systems.flink_texts import (
    allowance,
    cluster_settings,
    job_settings,
    jvm_arguments,
    sampled,
    stream_table,
    to_row,
    without_rowtimes,
)

ORDER: dict[str, Any] = {"scratch": "/s", "cores": 2, "heap_gigabytes": 4, "lateness": 0.5, "settings": {}}


def with_settings(**settings: str) -> dict[str, Any]:
    return ORDER | {"settings": settings}


def test_a_stream_is_a_table_with_a_watermark() -> None:
    stream = {"name": "A", "columns": {"ts": "timestamp", "k": "bigint", "f": "double"}, "time": "ts"}
    text = stream_table(stream, "/feed/A", 0.6)
    assert text.startswith(
        "CREATE TEMPORARY TABLE `A` (`ts` TIMESTAMP_LTZ(3), `k` BIGINT, `f` DOUBLE,"
        " WATERMARK FOR `ts` AS `ts` - INTERVAL '0.600' SECOND) WITH ('connector' = 'filesystem', 'path' = 'file:///feed/A'"
    )


def test_event_times_become_plain_values_before_a_sink() -> None:
    text = without_rowtimes("v", [("ts", "TIMESTAMP_LTZ(3)"), ("k", "BIGINT")], ["ts"])
    assert text == "SELECT CAST(`ts` AS TIMESTAMP_LTZ(3)) AS `ts`, `k` FROM `v`"


def test_a_sample_is_a_random_part_or_everything() -> None:
    assert sampled("v", ["a", "b"], 0.25).endswith("FROM `v` WHERE RAND() < 0.25")
    assert sampled("v", ["a"], 1.0) == "SELECT CAST(`a` AS STRING) AS `a` FROM `v`"


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("@row 3:1> +I[2024-01-01 00:00:01.239, 2024-01-01 00:00:00.5]", (3, 1_704_067_201_230_000)),
        ("@row 0> +I[2024-01-01 00:00:00.000]", (0, 1_704_067_200_000_000)),
        ("@row 12:2> +U[null, 2024-01-01 00:00:00.010]", (12, 1_704_067_200_010_000)),
        ("@row 12:2> +I[null]", None),
        ("some line of a log", None),
    ],
)
def test_rows_of_the_print_sink(line: str, row: tuple[int, int] | None) -> None:
    assert to_row(line) == row


def test_the_watermark_waits_for_what_may_be_late() -> None:
    assert allowance(ORDER) == pytest.approx(0.6)
    assert allowance(with_settings(slack="2")) == pytest.approx(2.5)


def test_the_heap_is_that_of_the_order() -> None:
    assert "-Xmx4g" in jvm_arguments(ORDER).split()
    assert "-XX:+UseG1GC" in jvm_arguments(with_settings(collector="G1")).split()


def test_what_the_order_says_goes_before_ours() -> None:
    order = with_settings(**{"pipeline.object-reuse": "false", "mode": "jobs"})
    assert job_settings(order, 8081)["pipeline.object-reuse"] == "false"
    assert "mode" not in job_settings(order, 8081)
    assert job_settings(ORDER, 8081)["parallelism.default"] == "2"
    assert cluster_settings(with_settings(**{"a.b": "c"}))["a.b"] == "c"


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (
            "org.apache.flink.runtime.JobException: Recovery is suppressed\n\tat a.B.c(B.java:1)\n"
            "Caused by: java.lang.OutOfMemoryError: Java heap space\n\tat d.E.f(E.java:2)\n",
            "OutOfMemoryError: Java heap space",
        ),
        (
            "An error occurred while calling o14.sqlQuery.\n: org.apache.flink.table.api.ValidationException: no",
            "ValidationException: no",
        ),
        ("", "unknown"),
    ],
)
def test_the_cause_is_said_in_a_line(trace: str, cause: str) -> None:
    assert root_cause(trace) == cause
