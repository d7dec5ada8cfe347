"""Values of aggregates over joins of many relations and by other conditions: types, NULLs, failures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.cell_cases import TYPES, array, canonical
from tests.support.engine_sample import open_core, rows, stream
from tests.support.harness import CoreHarness
from tests.unit.execution.aggregate.test_close_windows import SECOND, groups
from tests.unit.execution.aggregate.test_over_joins import COUNTS, SLIDE, each, row
from weft.errors import QueryFailed
from weft.plan.types import DataType

pytestmark = pytest.mark.thorough


@pytest.fixture
def harness(tmp_path: Path) -> CoreHarness:
    return open_core(tmp_path / "state", partitions=2)


@pytest.mark.parametrize(("value", "error"), [("100 div p.x", True), ("p.x * 2147483647", True), ("p.x", False)])
def test_a_query_whose_argument_or_key_fails_fails_alone(harness: CoreHarness, value: str, error: bool) -> None:
    harness.create(COUNTS, "well")
    harness.create(COUNTS.replace("COUNT(*)", f"SUM({value})"), "argument")
    harness.create(COUNTS.replace("r.k", value), "key")
    harness.create(COUNTS.replace("GROUP", "WHERE p.x = 1 GROUP").replace("COUNT(*)", f"SUM({value})"), "other rows")
    harness.batch(each(row(1, 0), row(2, 1), row(3, 3)))
    harness.batch(each(row(30)))
    assert groups(harness, "well") == [(1, 27, 0, 10)]
    assert [bool(harness._record(name).error) for name in ("well", "argument", "key")] == [False, error, error]
    assert not harness._record("other rows").error
    assert len(groups(harness, "other rows")) == 1


ALL = (
    "COUNT(*), COUNT(p.v), SUM(p.v), MIN(p.v), MAX(p.v), COUNT(DISTINCT p.v), APPROX_COUNT_DISTINCT(p.v), "
    "SUM(p.v * q.v), COUNT(p.v * q.v), AVG(p.v), AVG(p.v * q.v), STDDEV(p.v), PERCENTILE_APPROX(q.v, 0.5)"
)


@pytest.mark.parametrize(
    ("ddl", "type_", "values"),
    [
        ("int", pa.int32(), [3, None, -4, 2**31 - 1]),
        ("bigint", pa.int64(), [3, None, -4, 2**31]),
        ("decimal(10,2)", pa.decimal128(10, 2), [Decimal("1.25"), None, Decimal("-3.10"), Decimal("99999999.99")]),
        ("decimal(38,2)", pa.decimal128(38, 2), [Decimal("1.25"), None, Decimal("-3.10"), Decimal("99999999.99")]),
        ("double", pa.float64(), [0.5, None, -2.0, 8.25]),
    ],
)
def test_all_functions_as_over_a_join_by_equalities(
    tmp_path: Path, ddl: str, type_: pa.DataType, values: list[Any]
) -> None:
    """The same pairs, once by a condition that is no equality and once by one that is: other ways, equal results."""
    streams = [stream(name, ddl=f"ts timestamp, k int, v {ddl}") for name in "ab"]
    harness = open_core(tmp_path / "state", partitions=3, streams=streams)
    join = f"SELECT p.k, {ALL} FROM a {SLIDE} p JOIN b {SLIDE} q ON"
    harness.create(f"{join} p.k <= q.k AND p.k >= q.k GROUP BY p.k", "theta")
    harness.create(f"{join} p.k = q.k GROUP BY p.k", "equal")
    for second in (1, 4, 5):
        harness.batch({name: [typed(type_, second, values[shift:])] for shift, name in enumerate("ab")})
    harness.batch({name: [typed(type_, 99, [None])] for name in "ab"})
    found, other = groups(harness, "theta"), groups(harness, "equal")
    assert len(found) == len(other) > 4
    for mine, its in zip(found, other, strict=True):
        for value, other_value in zip(mine, its, strict=True):
            assert value == (pytest.approx(other_value) if isinstance(other_value, float) else other_value)


def typed(type_: pa.DataType, second: int, values: Sequence[Any]) -> pa.RecordBatch:
    times = pa.array([second * SECOND] * len(values)).cast(pa.timestamp("us", "UTC"))
    keys = pa.array([at % 2 for at in range(len(values))], pa.int32())
    return pa.RecordBatch.from_pydict({"ts": times, "k": keys, "v": pa.array(values, type_)})


@pytest.mark.parametrize("type_", TYPES, ids=DataType.ddl)
def test_group_keys_and_extremes_of_every_type(tmp_path: Path, type_: DataType) -> None:
    streams = [stream("a", ddl=f"ts timestamp, n int, v {type_.ddl()}"), stream("b")]
    harness = open_core(tmp_path / "state", partitions=3, streams=streams)
    window = "[TUMBLE 10 SECONDS]"
    harness.create(f"SELECT p.v, COUNT(*), MAX(p.v) FROM a {window} p JOIN b {window} q ON p.n < q.x GROUP BY p.v", "q")
    values = [*TYPES[type_], TYPES[type_][0], None, None]
    for second, some in ((1, values), (2, values[::-1]), (99, [None])):
        times = pa.array([second * SECOND] * len(some)).cast(pa.timestamp("us", "UTC"))
        numbers = pa.array([0] * len(some), pa.int32())
        batch = pa.RecordBatch.from_pydict({"ts": times, "n": numbers, "v": array(type_, some)})
        harness.batch({"a": [batch], "b": [rows((second, 1, 2))]})
    wanted_counts: dict[Any, int] = defaultdict(int)
    for value in values:
        wanted_counts[canonical(value)] += 4
    found = groups(harness, "q")
    assert len(found) == len(wanted_counts)
    for value, count, most, *edges in found:
        assert (count, edges) == (wanted_counts[canonical(value)], [0, 10])
        assert canonical(most) == canonical(value)


def test_a_sum_that_does_not_fit_is_the_fault_of_its_query_alone(harness: CoreHarness) -> None:
    harness.create(COUNTS.replace("COUNT(*)", "SUM(p.j)"), "narrow")
    harness.create(COUNTS.replace("COUNT(*)", "SUM(CAST(p.j AS DECIMAL(20, 0)))"), "wide")
    big = rows((1, 1, 1, 2**63 - 1), (2, 1, 1, 1))
    harness.batch({"a": [big], "b": [rows(row(1))], "c": [rows(row(1))]})
    harness.batch(each(row(40)))
    with pytest.raises(QueryFailed, match="a sum does not fit its type"):
        groups(harness, "narrow")
    assert groups(harness, "wide") == [(1, 2**63, 0, 10)]


def test_an_argument_that_older_rows_do_not_have(harness: CoreHarness) -> None:
    """Rows that came before a query wanted their column are not its own, but may be met by those of others."""
    harness.create(COUNTS, "old")
    harness.batch(each(row(1)))
    harness.create(COUNTS.replace("COUNT(*)", "SUM(p.x), MIN(p.s)").replace("TUMBLE 10", "TUMBLE 1"), "new")
    harness.batch({"b": [rows(row(2))], "c": [rows(row(2))]})
    harness.batch(each(row(3, 7)))
    harness.batch(each(row(40)))
    assert groups(harness, "old") == [(1, 2 * 3 * 3, 0, 10)]
    assert groups(harness, "new") == [(1, 7, "s", 3, 4)]
