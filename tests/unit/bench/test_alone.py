from __future__ import annotations

from pathlib import Path

import pytest

from weft.bench.alone import disagreements, result_alone
from weft.bench.case import Case, Digest, System
from weft.bench.data import Load, generate, second_table
from weft.bench.weft_system import table_digest
from weft.bench.workload import Predicate, WindowJoin, window_joins

LOAD = Load(rate=60, keys=5)
SECONDS = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generate(tmp_path, LOAD, SECONDS)
    return tmp_path


def by_hand(query: WindowJoin) -> Digest:
    def wanted(row: dict[str, int], predicate: Predicate) -> bool:
        value = row[f"f{predicate.attribute}"]
        return value > predicate.value if predicate.above else value < predicate.value

    total = Digest()
    sides = [[row for t in range(SECONDS) for row in second_table(LOAD, s, t).to_pylist()] for s in range(2)]
    for a in sides[0]:
        for b in sides[1]:
            apart = round((a["ts"] - b["ts"]).total_seconds() * 1_000_000)
            near = abs(apart) < query.seconds * 1_000_000
            if a["k"] == b["k"] and near and wanted(a, query.left) and wanted(b, query.right):
                total = total.plus(Digest(1, a["k"], a["f0"] + 1000 * b["f0"], apart))
    return total


def test_alone_equals_nested_loops(folder: Path) -> None:
    for query in window_joins(5):
        assert result_alone(query, folder, SECONDS) == by_hand(query)


def test_an_empty_result_has_an_empty_digest(folder: Path) -> None:
    nothing = WindowJoin(Predicate(0, above=False, value=0), Predicate(0, above=True, value=0), 1)
    assert result_alone(nothing, folder, SECONDS) == Digest()


def test_a_wrong_result_is_told(folder: Path) -> None:
    case = Case(System.WEFT, 2, SECONDS, load=LOAD)
    right = result_alone(window_joins(2)[1], folder, SECONDS)
    assert disagreements(case, {1: right}, folder) == []
    [line] = disagreements(case, {1: right.plus(Digest(distance=1))}, folder)
    assert line.startswith("weft, N = 2, query 1: ")


def test_digest_of_arrow_rows() -> None:
    rows = second_table(LOAD, 0, 0).slice(0, 3)
    later = second_table(LOAD, 0, 1).slice(0, 3)
    table = rows.select(["ts", "k", "f0"]).rename_columns(["a_ts", "k", "a_f0"])
    table = table.append_column("b_ts", later["ts"]).append_column("b_f0", later["f0"])
    total = Digest()
    for row in table.to_pylist():
        apart = round((row["a_ts"] - row["b_ts"]).total_seconds() * 1_000_000)
        total = total.plus(Digest(1, row["k"], row["a_f0"] + 1000 * row["b_f0"], apart))
    assert table_digest(table) == total
    assert table_digest(table.slice(0, 0)) == Digest()
