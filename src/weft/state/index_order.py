"""Secondary indexes: hashes in order, and the rows behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.kernels.order import sort_order
from weft.state.bucket import LAST_HASH

Array = np.ndarray[Any, Any]


def order_index(hashes: Array, times: Array, valid: Array | None) -> tuple[Array, Array]:
    """Sorted hashes and their rows; rows without a key come last, with row number -1."""
    rows = np.arange(len(hashes), dtype=np.int32) if valid is None else np.flatnonzero(valid).astype(np.int32)
    order = sort_order(hashes[rows], times[rows])
    missing = len(hashes) - len(rows)
    return (
        np.concatenate([hashes[rows][order], np.full(missing, LAST_HASH, np.uint64)]),
        np.concatenate([rows[order], np.full(missing, -1, np.int32)]),
    )
