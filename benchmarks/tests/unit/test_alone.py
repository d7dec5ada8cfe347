from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from weft_bench.alone import aggregate_alone, disagreements, fan_out_alone, join_alone, result_alone
from weft_bench.case import Case, Digest, Kind, System
from weft_bench.data import START, Load, generate, second_table
from weft_bench.workload import Extra, Predicate, WindowAggregate, WindowJoin, window_aggregates, window_joins

LOAD = Load(rate=60, keys=5)
SECONDS = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generate(tmp_path, LOAD, SECONDS)
    return tmp_path


def wanted(row: dict[str, int], predicate: Predicate) -> bool:
    value = row[f"f{predicate.attribute}"]
    return value > predicate.value if predicate.above else value < predicate.value


def rows_of(stream: int) -> list[dict[str, Any]]:
    return [row for second in range(SECONDS) for row in second_table(LOAD, stream, second).to_pylist()]


def pairs_by_hand(query: WindowJoin) -> Digest:
    total = Digest()
    sides = [rows_of(0), rows_of(1)]
    for a in sides[0]:
        for b in sides[1]:
            apart = round((a["ts"] - b["ts"]).total_seconds() * 1_000_000)
            near = abs(apart) < query.seconds * 1_000_000
            if a["k"] == b["k"] and near and wanted(a, query.left) and wanted(b, query.right):
                total = total.plus(Digest(1, a["k"], a["f0"] + 1000 * b["f0"], apart))
    return total


def groups_by_hand(query: WindowAggregate) -> Digest:
    begin, last = int(START.timestamp()), int(START.timestamp()) + SECONDS - 1
    total = Digest()
    for start in (n for n in range(begin - 10, last) if n % query.slide == 0 and n + query.seconds <= last):
        for key in range(LOAD.keys):
            rows = [
                row
                for row in rows_of(0)
                if row["k"] == key
                and start <= row["ts"].timestamp() < start + query.seconds
                and wanted(row, query.predicate)
            ]
            if rows:
                extra = [row[f"f{query.extra_of}"] for row in rows]
                other = {
                    Extra.NOTHING: 0,
                    Extra.MIN: 1000 * min(extra),
                    Extra.MAX: 1000 * max(extra),
                    Extra.AVG: math.floor(1000 * (sum(extra) / len(extra)) + 0.5),
                }
                values = len(rows) + sum(row[f"f{query.summed}"] for row in rows) + other[query.extra]
                total = total.plus(Digest(1, key * len(rows), (key + 1) * values, (start - begin) * len(rows)))
    return total


def fan_out_by_hand() -> Digest:
    found: dict[tuple[int, int], list[int]] = {}
    for a in rows_of(0):
        for b in rows_of(1):
            second = int(a["ts"].timestamp() - START.timestamp())
            if a["k"] == b["k"] and second == int(b["ts"].timestamp() - START.timestamp()) < SECONDS - 1:
                found.setdefault((a["f0"], second), []).append(1 + a["f1"] + a["f1"] * b["f2"])
    total = Digest()
    for (group, second), values in found.items():
        total = total.plus(Digest(1, group * len(values), (group + 1) * sum(values), second * len(values)))
    return total


def test_joins_alone_equal_nested_loops(folder: Path) -> None:
    for query in window_joins(5):
        assert join_alone(query, folder, SECONDS) == pairs_by_hand(query)


@pytest.mark.parametrize("extra", Extra)
def test_aggregates_alone_equal_what_is_counted_by_hand(folder: Path, extra: Extra) -> None:
    query = WindowAggregate(Predicate(1, above=True, value=99), 3, 2, 0, extra, 4)
    found = aggregate_alone(query, folder, SECONDS)
    assert found == groups_by_hand(query)
    assert found.rows > 0


def test_random_aggregates_alone_equal_what_is_counted_by_hand(folder: Path) -> None:
    for query in window_aggregates(5):
        assert aggregate_alone(query, folder, SECONDS) == groups_by_hand(query)


def test_an_aggregate_over_a_join_alone_equals_nested_loops(folder: Path) -> None:
    found = fan_out_alone(folder, SECONDS)
    assert found == fan_out_by_hand()
    assert found.rows > 0


def test_an_empty_result_has_an_empty_digest(folder: Path) -> None:
    nothing = WindowJoin(Predicate(0, above=False, value=0), Predicate(0, above=True, value=0), 1)
    assert join_alone(nothing, folder, SECONDS) == Digest()


@pytest.mark.parametrize("kind", Kind)
def test_a_wrong_result_is_told(folder: Path, kind: Kind) -> None:
    case = Case(System.WEFT, 2, SECONDS, load=LOAD, kind=kind)
    right = result_alone(case, 1, folder)
    assert disagreements(case, {1: right}, folder) == []
    [line] = disagreements(case, {1: right.plus(Digest(distance=1))}, folder)
    assert line.startswith(f"weft, {kind}, N = 2, query 1: ")
