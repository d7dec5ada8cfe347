"""Secondary indexes: sorted hashes of a key, and the row of each hash."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernels.order import sort_order
from weft.plan.key import IndexId
from weft.storage.bucket import LAST_HASH, PartView, index_hash, index_rows

Array = np.ndarray[Any, Any]


def order_index(hashes: Array, times: Array, valid: Array | None) -> tuple[Array, Array]:
    """Return the hashes in (hash, time) order and their rows. Rows with a NULL key come last, as row number -1."""
    rows = np.arange(len(hashes), dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    order = sort_order(hashes[rows], times[rows])
    missing = len(hashes) - len(rows)
    return (
        np.concatenate([hashes[rows][order], np.full(missing, LAST_HASH, np.uint64)]),
        np.concatenate([rows[order], np.full(missing, -1, np.int32)]),
    )


def row_hashes(view: PartView, index: IndexId) -> tuple[Array, Array]:
    """Return the hash of an index's key per row, and which rows have one: none if the bucket predates the index."""
    values, valid = np.zeros(view.rows.num_rows, np.uint64), np.zeros(view.rows.num_rows, np.bool_)
    if index_hash(index) in view.rows.schema.names:
        rows, hashes = view.column(index_rows(index)), view.column(index_hash(index))
        known = rows >= 0
        values[rows[known]], valid[rows[known]] = hashes[known], True
    return values, valid
