"""TPC-H as streams on real Spark: all joins at once, batch by batch, against DuckDB over whole tables."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import weft
from tests.spark.support import Place
from weft_bench.tpch import SCHEMAS, TIME, generate, join_alone, slices, write_slice
from weft_bench.tpch_queries import JOINS, TPCH

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCALE = 0.1
BATCHES = 6


def difference(got: pa.Table, want: pa.Table) -> str:
    """What two tables differ in as multisets; empty if nothing. In DuckDB, as there may be millions of rows."""
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("got", got)
        database.register("want", want)
        missing, extra = (
            database.sql(f"SELECT * FROM {one} EXCEPT ALL SELECT * FROM {other}").fetchall()
            for one, other in (("want", "got"), ("got", "want"))
        )
    if not missing and not extra:
        return ""
    return f"{len(missing)} of {want.num_rows} missing, such as {missing[:2]}; {len(extra)} too many: {extra[:2]}"


def declare(place: Place, engine: weft.Engine) -> None:
    for name, ddl in SCHEMAS.items():
        (place.root / name).mkdir()
        engine.stream(name, weft.files(place.root / name, schema=ddl), time=TIME, lateness="0 seconds")


def test_all_joins_at_once_give_what_duckdb_gives(place: Place) -> None:
    tables = generate(SCALE)
    pieces = slices(tables, sum(table.num_rows for table in tables.values()) // BATCHES + 1)
    assert len(pieces) == BATCHES
    engine = place.engine()
    declare(place, engine)
    queries = engine.create_many([(join.name, join.sql) for join in JOINS])
    for number, piece in enumerate(pieces):
        write_slice(place.root, number, piece)
        summary = engine.step()
        assert summary is not None
        assert (summary.batch, summary.late, summary.failed) == (number, 0, ())
        assert summary.rows == sum(table.num_rows for table in piece.values())
    assert engine.step() is None
    for join, query in zip(JOINS, queries, strict=True):
        assert difference(query.results().toArrow(), join_alone(tables, join)) == "", join.name


def test_joins_of_a_second_engine_on_the_same_path(place: Place) -> None:
    """The state of joins over full history outlives the process: half of the batches before, half after."""
    tables = generate(SCALE / 10)
    pieces = slices(tables, sum(table.num_rows for table in tables.values()) // 4 + 1)
    engine = place.engine()
    declare(place, engine)
    engine.create_many([(join.name, join.sql) for join in TPCH])
    for number, piece in enumerate(pieces):
        if number == len(pieces) // 2:
            engine = place.engine(partitions=3)
        write_slice(place.root, number, piece)
        assert engine.step() is not None
    for join in TPCH:
        assert difference(engine.query(join.name).results().toArrow(), join_alone(tables, join)) == "", join.name
