"""TPC-H's tables as streams without end: when all rows of a table have come, they come again.

All tables take equally long to come once. Nations and regions are columns of customers and suppliers: 25 and 5 rows are
too few to be streams. Money is double, a date is the integer yyyymmdd, texts that no query reads are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft_bench.tpch import generate
from weft_bench.workloads.model import StreamSpec
from weft_bench.workloads.rows import Numbers

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "supplier": {
        "s_suppkey": "bigint",
        "s_name": "string",
        "s_nationkey": "bigint",
        "s_acctbal": "double",
        "s_nation": "string",
        "s_region": "string",
    },
    "customer": {
        "c_custkey": "bigint",
        "c_name": "string",
        "c_nationkey": "bigint",
        "c_acctbal": "double",
        "c_mktsegment": "string",
        "c_nation": "string",
        "c_region": "string",
    },
    "part": {"p_partkey": "bigint", "p_name": "string", "p_mfgr": "string", "p_type": "string", "p_size": "int"},
    "partsupp": {"ps_partkey": "bigint", "ps_suppkey": "bigint", "ps_availqty": "int", "ps_supplycost": "double"},
    "orders": {
        "o_orderkey": "bigint",
        "o_custkey": "bigint",
        "o_totalprice": "double",
        "o_orderdate": "int",
        "o_shippriority": "int",
    },
    "lineitem": {
        "l_orderkey": "bigint",
        "l_partkey": "bigint",
        "l_suppkey": "bigint",
        "l_linenumber": "int",
        "l_quantity": "double",
        "l_extendedprice": "double",
        "l_discount": "double",
        "l_returnflag": "string",
        "l_shipdate": "int",
    },
}
_ARROW = {"bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "string": pa.string()}


@cache
def tables(scale: float) -> Mapping[str, pa.Table]:
    """The rows of one round, in the order in which they come; needs the package tpchgen-cli."""
    found = generate(scale)
    nations = found["nation"].select(["n_nationkey", "n_name", "n_regionkey"]).sort_by("n_nationkey")
    names = found["region"].select(["r_regionkey", "r_name"]).sort_by("r_regionkey")["r_name"].combine_chunks()
    regions = names.take(nations["n_regionkey"].combine_chunks())
    return {
        name: pa.table(
            {
                column: _column(found[name], column, kind, nations=nations["n_name"].combine_chunks(), regions=regions)
                for column, kind in columns.items()
            }
        )
        for name, columns in COLUMNS.items()
    }


def _column(table: pa.Table, name: str, kind: str, *, nations: pa.Array, regions: pa.Array) -> pa.Array:
    prefix, _, rest = name.partition("_")
    if rest in ("nation", "region"):
        keys = table[f"{prefix}_nationkey"].combine_chunks()
        return (nations if rest == "nation" else regions).take(keys).cast(pa.string())
    values = table[name].combine_chunks()
    if pa.types.is_date(values.type):
        parts = ((pc.year(values), 10_000), (pc.month(values), 100), (pc.day(values), 1))
        scaled = [pc.multiply(part, factor) for part, factor in parts]
        values = pc.add(pc.add(scaled[0], scaled[1]), scaled[2])
    return values.cast(_ARROW[kind])


@dataclass(frozen=True, slots=True)
class TableRows:
    """Makes a table's rows, round after round."""

    live: ClassVar[bool] = True
    name: str
    scale: float

    def __call__(self, rng: np.random.Generator, numbers: Numbers) -> Mapping[str, pa.Array]:
        """All columns but the event time."""
        table = tables(self.scale)[self.name]
        taken = table.take(pa.array(numbers % table.num_rows))
        return {name: taken[name].combine_chunks() for name in table.column_names}


def streams(scale: float) -> tuple[StreamSpec, ...]:
    """The six streams; each has its table's part of all rows."""
    every = rows_of_a_round(scale)
    return tuple(
        StreamSpec(name, {"ts": "timestamp", **columns}, TableRows(name, scale), tables(scale)[name].num_rows / every)
        for name, columns in COLUMNS.items()
    )


def rows_of_a_round(scale: float) -> int:
    """How many rows all tables have together."""
    return sum(table.num_rows for table in tables(scale).values())
