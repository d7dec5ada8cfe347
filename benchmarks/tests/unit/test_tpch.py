from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support.harness import open_harness
from weft.kernels.arrow_types import arrow_schema
from weft.plan.window import Unbounded
from weft.sql import bind
from weft_bench.tpch import (
    SCHEMAS,
    SPREAD,
    START,
    TIME,
    Slice,
    declared,
    file_of,
    generate,
    join_alone,
    slices,
    to_stream,
    write_slices,
)
from weft_bench.tpch_queries import CLASH, JOINS, Q5, Q7, Q8, Q9, TPCH, Join

SCALE = 0.005
ROWS = {"region": 5, "nation": 25, "supplier": 50, "customer": 750, "part": 1000, "partsupp": 4000, "orders": 7500}
"""By the specification; the number of line items is random."""
DATES = {"orders": "o_orderdate", "lineitem": "l_shipdate"}


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return generate(SCALE)


@pytest.fixture(scope="module")
def pieces(tables: dict[str, pa.Table]) -> tuple[Slice, ...]:
    return slices(tables, 8000)


def by_name(join: Join) -> str:
    return join.name


def times(table: pa.Table) -> list[datetime]:
    found: list[datetime] = table[TIME].to_pylist()
    return found


def test_all_rows_of_the_specification_are_there(tables: dict[str, pa.Table]) -> None:
    assert {name: table.num_rows for name, table in tables.items() if name != "lineitem"} == ROWS
    assert 3.5 < tables["lineitem"].num_rows / ROWS["orders"] < 4.5


def test_columns_are_those_of_the_streams(tables: dict[str, pa.Table]) -> None:
    streams = declared(Path("somewhere"))
    assert set(streams) == set(SCHEMAS) == set(tables)
    for name, table in tables.items():
        assert table.schema == arrow_schema(streams[name].schema)
        assert [column for column in table.column_names if table[column].null_count] == []


def test_rows_are_in_the_order_of_their_times(tables: dict[str, pa.Table]) -> None:
    for table in tables.values():
        assert times(table) == sorted(times(table))


@pytest.mark.parametrize("name", DATES)
def test_orders_and_line_items_come_on_their_day(tables: dict[str, pa.Table], name: str) -> None:
    assert [moment.date() for moment in times(tables[name])] == tables[name][DATES[name]].to_pylist()


def test_other_tables_come_between_the_first_orders(tables: dict[str, pa.Table]) -> None:
    for name in set(SCHEMAS) - set(DATES):
        assert START <= times(tables[name])[0] <= times(tables[name])[-1] < START + SPREAD
        keys = tables[name].column(1).to_pylist()
        assert keys != sorted(keys), f"rows of {name} come by key"
    first_line_items = [moment for moment in times(tables["lineitem"]) if moment < START + SPREAD]
    assert len(first_line_items) > tables["lineitem"].num_rows / 5, "some are shipped before their part is known"


def test_the_same_rows_have_the_same_times() -> None:
    table = pa.table({"r_regionkey": range(5), "r_name": ["a", "b", "c", "d", "e"], "r_comment": [""] * 5})
    first, second = to_stream("region", table), to_stream("region", table)
    assert first == second
    assert sorted(first["r_regionkey"].to_pylist()) == [0, 1, 2, 3, 4]


def test_slices_hold_every_row_once(tables: dict[str, pa.Table], pieces: tuple[Slice, ...]) -> None:
    for name, table in tables.items():
        assert pa.concat_tables(piece[name] for piece in pieces if name in piece).equals(table)


def test_slices_follow_each_other_in_time(pieces: tuple[Slice, ...]) -> None:
    spans = [
        (min(times(table)[0] for table in piece.values()), max(times(table)[-1] for table in piece.values()))
        for piece in pieces
    ]
    assert all(earlier[1] < later[0] for earlier, later in pairwise(spans))


def test_slices_have_the_size_asked_for(tables: dict[str, pa.Table], pieces: tuple[Slice, ...]) -> None:
    sizes = [sum(table.num_rows for table in piece.values()) for piece in pieces]
    assert sum(sizes) == sum(table.num_rows for table in tables.values())
    assert all(size == pytest.approx(8000, abs=10) for size in sizes[:-1])
    assert 0 < sizes[-1] <= 8010
    assert all(table.num_rows for piece in pieces for table in piece.values())


def test_rows_of_one_moment_are_not_torn_apart() -> None:
    moment = pa.array([datetime(1992, 1, day, tzinfo=UTC) for day in (1, 2, 2, 2, 3)], pa.timestamp("us", "UTC"))
    pieces = slices({"a": pa.table({TIME: moment}), "b": pa.table({TIME: moment.slice(0, 2)})}, 3)
    assert [{name: table.num_rows for name, table in piece.items()} for piece in pieces] == [
        {"a": 1, "b": 1},
        {"a": 3, "b": 1},
        {"a": 1},
    ]


def test_one_slice_can_hold_everything(tables: dict[str, pa.Table]) -> None:
    (only,) = slices(tables, 1_000_000)
    assert dict(only) == tables


def test_files_hold_the_slices_in_their_order(tmp_path: Path, pieces: tuple[Slice, ...]) -> None:
    write_slices(tmp_path, pieces)
    for name in SCHEMAS:
        numbers = [number for number, piece in enumerate(pieces) if name in piece]
        paths = [file_of(tmp_path, name, number) for number in numbers]
        assert sorted((tmp_path / name).iterdir()) == paths
        assert sorted(paths, key=lambda path: path.stat().st_mtime) == paths
        for number, path in zip(numbers, paths, strict=True):
            assert pq.read_table(path).equals(pieces[number][name])


@pytest.mark.parametrize("join", JOINS, ids=by_name)
def test_a_join_binds_with_full_history(join: Join) -> None:
    query = bind(join.sql, declared(Path("somewhere")))
    assert len(query.relations) > 1
    assert {relation.window for relation in query.relations} == {Unbounded()}
    assert query.notices == ()
    assert [output.name for output in query.outputs if output.source is None] == []
    assert "[" not in join.plain_sql()


def test_what_is_special_about_a_join() -> None:
    streams = declared(Path("somewhere"))
    relations = {join.name: [r.stream for r in bind(join.sql, streams).relations] for join in JOINS}
    assert len(relations[Q8.name]) == 8
    assert {name for name, streams in relations.items() if len(set(streams)) < len(streams)} == {Q7.name, Q8.name}
    assert all(streams.count("nation") == 2 for name, streams in relations.items() if name in (Q7.name, Q8.name))
    assert [join.name for join in JOINS if bind(join.sql, streams).conditions] == [Q7.name]
    for cyclic in (Q5, Q9):
        query = bind(cyclic.sql, streams)
        assert len(query.keys) >= len(query.relations), "more equalities than a tree has"
    assert all(relation.predicate is None for join in CLASH for relation in bind(join.sql, streams).relations)
    assert all(
        any(relation.predicate is not None for relation in bind(join.sql, streams).relations)
        for join in TPCH
        if join is not Q7
    )


@pytest.mark.parametrize("join", JOINS, ids=by_name)
def test_a_join_finds_rows(tables: dict[str, pa.Table], join: Join) -> None:
    found = join_alone(tables, join)
    assert found.num_rows > 0
    assert [output.name for output in bind(join.sql, declared(Path("somewhere"))).outputs] == found.column_names


def test_duckdb_finds_what_a_dictionary_finds(tables: dict[str, pa.Table]) -> None:
    orders = {order["o_orderkey"]: order for order in tables["orders"].to_pylist()}
    customers = Counter(tables["customer"]["c_custkey"].to_pylist())
    by_hand = Counter(
        (orders[item["l_orderkey"]]["o_custkey"], item["l_orderkey"], item["l_linenumber"], item["l_quantity"])
        for item in tables["lineitem"].to_pylist()
        if customers[orders[item["l_orderkey"]]["o_custkey"]]
    )
    assert multiset(join_alone(tables, CLASH[0])) == by_hand


def multiset(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_all_joins_at_once_give_what_duckdb_gives(
    tmp_path: Path, tables: dict[str, pa.Table], pieces: tuple[Slice, ...]
) -> None:
    harness = open_harness(tmp_path, list(declared(tmp_path).values()), partitions=2)
    harness.create_many([(join.sql, join.name) for join in JOINS])
    for piece in pieces:
        harness.batch({name: table.to_batches() for name, table in piece.items()})
    for join in JOINS:
        want, got = multiset(join_alone(tables, join)), Counter(harness.results(join.name))
        missing, extra = want - got, got - want
        assert not missing, f"{join.name}: {missing.total()} of {want.total()} rows missing, {list(missing)[:2]}"
        assert not extra, f"{join.name}: {extra.total()} rows too many, {list(extra)[:2]}"


def test_a_join_created_later_misses_what_came_before(
    tmp_path: Path, tables: dict[str, pa.Table], pieces: tuple[Slice, ...]
) -> None:
    """A query's result is over the rows from its start on, though its neighbours have the older ones in store."""
    harness = open_harness(tmp_path, list(declared(tmp_path).values()), partitions=2)
    harness.create(CLASH[0].sql, "early")
    harness.batch({name: table.to_batches() for name, table in pieces[0].items()})
    harness.create(CLASH[0].sql, "late")
    for piece in pieces[1:]:
        harness.batch({name: table.to_batches() for name, table in piece.items()})
    start = harness.complete_from("late")
    relations = ("customer", "orders", "lineitem")
    assert start == max(times(pieces[0][name])[-1] for name in relations) + timedelta(microseconds=1)
    rest = {name: table.filter(pc.greater_equal(table[TIME], start)) for name, table in tables.items()}
    assert Counter(harness.results("early")) == multiset(join_alone(tables, CLASH[0]))
    assert Counter(harness.results("late")) == multiset(join_alone(rest, CLASH[0]))
