"""Results as Arrow tables, reduced to figures that do not depend on the order of their rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft_bench.case import Digest
from weft_bench.data import START

_MICROS = 1_000_000
_UNITS = {"n": 1, "total": 1, "product": 1, "other": 1000}
"""Whole what the outputs of an aggregate are counted in: averages in thousandths."""


def join_digest(table: pa.Table) -> Digest:
    """The digest of rows with the columns of the window joins."""
    values = [pc.sum(table[name], min_count=0).as_py() for name in ("k", "a_f0", "b_f0")]
    apart = pc.subtract(table["a_ts"].cast(pa.int64()), table["b_ts"].cast(pa.int64()))
    return Digest(table.num_rows, values[0], values[1] + 1000 * values[2], pc.sum(apart, min_count=0).as_py())


def aggregate_digest(table: pa.Table) -> Digest:
    """The digest of rows of an aggregate: its group, the start of the window, and some of n, total, product, other."""
    groups = table.column(0).to_numpy().astype(np.int64)
    starts = table["start"].cast(pa.int64()).to_numpy() // _MICROS - int(START.timestamp())
    counts = table["n"].to_numpy()
    parts = [_whole(table[name].to_numpy(), unit) for name, unit in _UNITS.items() if name in table.column_names]
    return Digest(
        rows=table.num_rows,
        keys=int((groups * counts).sum()),
        values=int(((groups + 1) * np.sum(parts, axis=0)).sum()),
        distance=int((starts * counts).sum()),
    )


def _whole(values: np.ndarray, unit: int) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.floor(values * unit + 0.5).astype(np.int64)
    return values.astype(np.int64) * unit
