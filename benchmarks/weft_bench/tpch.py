"""TPC-H as streams: its eight tables with event times, cut into slices of time that are replayed as micro-batches.

An order comes on its day, a line item on the day it is shipped. The rows of the other tables come in random order
spread over the first two of the seven years, so that customers, parts and suppliers appear before, between and after
the orders that name them. The same scale gives the same rows at the same times.
"""

from __future__ import annotations

import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from weft.kernels.arrow_types import arrow_schema
from weft.plan.stream import FileSource, Format, Stream
from weft.sql import parse_schema
from weft_bench.tpch_queries import Join

TIME = "ts"
_MONEY = "decimal(15,2)"
SCHEMAS: Mapping[str, str] = {
    "region": "ts timestamp, r_regionkey bigint, r_name string, r_comment string",
    "nation": "ts timestamp, n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string",
    "supplier": "ts timestamp, s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, s_phone string, "
    f"s_acctbal {_MONEY}, s_comment string",
    "customer": "ts timestamp, c_custkey bigint, c_name string, c_address string, c_nationkey bigint, c_phone string, "
    f"c_acctbal {_MONEY}, c_mktsegment string, c_comment string",
    "part": "ts timestamp, p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
    f"p_container string, p_retailprice {_MONEY}, p_comment string",
    "partsupp": "ts timestamp, ps_partkey bigint, ps_suppkey bigint, ps_availqty int, "
    f"ps_supplycost {_MONEY}, ps_comment string",
    "orders": f"ts timestamp, o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice {_MONEY}, "
    "o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, o_comment string",
    "lineitem": "ts timestamp, l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, "
    f"l_quantity {_MONEY}, l_extendedprice {_MONEY}, l_discount {_MONEY}, l_tax {_MONEY}, l_returnflag string, "
    "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
    "l_shipmode string, l_comment string",
}
"""The streams and their columns: those of the specification behind the event time."""

START = datetime(1992, 1, 1, tzinfo=UTC)
"""The first day of an order."""
SPREAD = timedelta(days=730)
"""How long the rows of tables without a date keep coming."""
_DATES = {"orders": "o_orderdate", "lineitem": "l_shipdate"}
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND
_PROGRAM = "tpchgen-cli"

Slice = Mapping[str, pa.Table]
"""The rows of one span of time: per stream that has any, in the order of their event time."""


def generate(scale: float) -> dict[str, pa.Table]:
    """All streams at a scale factor, each in the order of its event time; needs the package tpchgen-cli."""
    program = Path(sysconfig.get_path("scripts")) / _PROGRAM
    with tempfile.TemporaryDirectory(prefix="weft-tpch-") as folder:
        command = [str(program), "parquet", "--quiet", "--scale-factor", repr(scale), "--output-dir", folder]
        subprocess.run(command, check=True)
        return {name: to_stream(name, pq.read_table(Path(folder) / f"{name}.parquet")) for name in SCHEMAS}


def to_stream(name: str, table: pa.Table) -> pa.Table:
    """A generated table with its event times, in their order."""
    # Of the stream's place, not its name: hash() of a text changes from run to run.
    rng = np.random.default_rng((list(SCHEMAS).index(name), table.num_rows))
    times = _times(rng, table, _DATES.get(name))
    order = np.argsort(times, kind="stable")
    schema = arrow_schema(parse_schema(SCHEMAS[name]))
    columns = table.select(schema.names[1:]).cast(schema.remove(0)).combine_chunks().take(pa.array(order))
    return columns.add_column(0, schema.field(0), pa.array(times[order], schema.field(0).type))


def _times(rng: np.random.Generator, table: pa.Table, date: str | None) -> npt.NDArray[np.int64]:
    """Event times in microseconds: some moment of the row's day, or of the time that rows without a day are spread."""
    moments: npt.NDArray[np.int64]
    if date is None:
        moments = rng.integers(0, SPREAD // _MICROSECOND, table.num_rows)
        moments += (START - datetime.fromtimestamp(0, UTC)) // _MICROSECOND
    else:
        moments = rng.integers(0, _DAY, table.num_rows)
        days: npt.NDArray[np.int32] = table[date].combine_chunks().cast(pa.int32()).to_numpy()
        moments += days.astype(np.int64) * _DAY
    return moments


def slices(tables: Mapping[str, pa.Table], rows: int) -> tuple[Slice, ...]:
    """The streams cut into consecutive spans of time, each with about `rows` rows of all streams together."""
    times = {name: table[TIME].combine_chunks().cast(pa.int64()).to_numpy() for name, table in tables.items()}
    every = np.sort(np.concatenate(list(times.values())))
    ends = np.unique(every[rows::rows])
    cuts = {name: [0, *np.searchsorted(each, ends).tolist(), len(each)] for name, each in times.items()}
    return tuple(
        {
            name: table.slice(cuts[name][at], cuts[name][at + 1] - cuts[name][at])
            for name, table in tables.items()
            if cuts[name][at] < cuts[name][at + 1]
        }
        for at in range(len(ends) + 1)
    )


def write_slice(folder: Path, number: int, piece: Slice) -> None:
    """One more file in folder/<stream> for each stream with rows in the slice; a file appears whole."""
    for name, table in piece.items():
        target = file_of(folder, name, number)
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}")
        pq.write_table(table, hidden)
        # File sources read in the order of modification time: make it the order of event time.
        moment = (START + timedelta(seconds=number)).timestamp()
        os.utime(hidden, (moment, moment))
        hidden.rename(target)


def write_slices(folder: Path, pieces: Sequence[Slice]) -> None:
    """The files of all slices, in their order."""
    for number, piece in enumerate(pieces):
        write_slice(folder, number, piece)


def file_of(folder: Path, stream: str, number: int) -> Path:
    """Where a stream's rows of a slice lie."""
    return folder / stream / f"p{number:05d}.parquet"


def declared(folder: Path) -> dict[str, Stream]:
    """The streams over the files that `write_slice` writes, as the engine declares them: their rows are never late."""
    return {
        name: Stream(
            name=name,
            schema=parse_schema(ddl),
            time=TIME,
            lateness=timedelta(0),
            retain=None,
            source=FileSource(str(folder / name), Format.PARQUET),
        )
        for name, ddl in SCHEMAS.items()
    }


def join_alone(tables: Mapping[str, pa.Table], join: Join) -> pa.Table:
    """What DuckDB says a join gives over whole streams."""
    with duckdb.connect(config={"threads": 1}) as database:
        for name, table in tables.items():
            database.register(name, table)
        return database.sql(join.plain_sql()).to_arrow_table()
