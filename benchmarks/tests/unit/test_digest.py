from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from weft_bench.case import Digest
from weft_bench.data import START, Load, second_table
from weft_bench.digest import aggregate_digest, join_digest

LOAD = Load(rate=60, keys=5)


def test_digest_of_joined_rows() -> None:
    rows = second_table(LOAD, 0, 0).slice(0, 3)
    later = second_table(LOAD, 0, 1).slice(0, 3)
    table = rows.select(["ts", "k", "f0"]).rename_columns(["a_ts", "k", "a_f0"])
    table = table.append_column("b_ts", later["ts"]).append_column("b_f0", later["f0"])
    total = Digest()
    for row in table.to_pylist():
        apart = round((row["a_ts"] - row["b_ts"]).total_seconds() * 1_000_000)
        total = total.plus(Digest(1, row["k"], row["a_f0"] + 1000 * row["b_f0"], apart))
    assert join_digest(table) == total
    assert join_digest(table.slice(0, 0)) == Digest()


def test_digest_of_aggregates() -> None:
    starts = pa.array([START, START + timedelta(seconds=6)], pa.timestamp("us", "UTC"))
    table = pa.table({"k": [3, 4], "start": starts, "n": [2, 5], "total": [10, 20]})
    assert aggregate_digest(table) == Digest(2, 26, 4 * 12 + 5 * 25, 30)
    averages = table.append_column("other", pa.array([0.5, 1.0 / 3]))
    assert aggregate_digest(averages).values == 4 * (12 + 500) + 5 * (25 + 333)
    smallest = table.append_column("other", pa.array([7, 9], pa.int32()))
    assert aggregate_digest(smallest).values == 4 * (12 + 7000) + 5 * (25 + 9000)
    assert aggregate_digest(table.slice(0, 0)) == Digest()
