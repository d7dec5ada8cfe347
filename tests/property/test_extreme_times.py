"""Every event time that 64 bits can hold is stored, compared, windowed and read; no batch fails of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from tests.support.by_seed import by_seed
from tests.support.generators.extremes import CASES, LATENESS, SECOND, draw_rows, results, to_batch
from tests.support.harness import CoreHarness
from weft.plan.stream import FrameSource, Stream
from weft.plan.time import TIME_MAX, TIME_MIN
from weft.sql import parse_schema


def open_harness(path: Path) -> CoreHarness:
    schema = parse_schema("ts timestamp, k bigint, x int")
    lateness = timedelta(microseconds=LATENESS)
    return CoreHarness(
        path, [Stream(name, schema, "ts", lateness, None, FrameSource()) for name in "abc"], partitions=2
    )


def check(batches: list[dict[str, list[tuple[int, int, int]]]]) -> None:
    with TemporaryDirectory() as path:
        harness = open_harness(Path(path))
        harness.create_many([(case.sql, name) for name, case in CASES.items()])
        for number, batch in enumerate(batches):
            harness.batch({name: [to_batch(rows)] for name, rows in batch.items()})
            if number == len(batches) // 2:
                harness.reopen(3)
        for name, case in CASES.items():
            assert results(harness, name, case.columns) == case.expected(batches), name


@by_seed(40)
def test_rows_at_the_ends_of_time_give_what_the_contract_says(seed: int) -> None:
    random = Random(seed)
    drawn = {name: draw_rows(random, 4) for name in "abc"}
    count = max(map(len, drawn.values()))
    check([{name: parts[n] for name, parts in drawn.items() if n < len(parts)} for n in range(count)])


@pytest.mark.parametrize("time", [TIME_MAX, TIME_MAX - 1, TIME_MAX - 10 * SECOND, TIME_MIN, TIME_MIN + 1, 2**62])
def test_one_row_at_an_end_of_time_is_like_any_other(time: int) -> None:
    row = (time, 1, 5)
    check([dict.fromkeys("abc", rows) for rows in ([row], [row, (TIME_MAX, 1, 6)])])


def test_a_query_created_after_the_last_time_there_is_has_no_rows(tmp_path: Path) -> None:
    harness = open_harness(tmp_path)
    harness.batch({"a": [to_batch([(TIME_MAX, 1, 1)])]})
    case = CASES["tumbling"]
    harness.create(case.sql, "tumbling")
    harness.batch({"a": [to_batch([(TIME_MAX, 1, 2)])]})
    assert not results(harness, "tumbling", case.columns)
    harness.reopen(1)
    assert not results(harness, "tumbling", case.columns)
