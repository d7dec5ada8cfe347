"""The (hash, time) order of buckets against numpy's lexsort."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.kernels.order import sort_order

HASHES = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
TIMES = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])


def _expected(h: npt.NDArray[np.uint64], t: npt.NDArray[np.int64]) -> list[int]:
    return [int(row) for row in np.lexsort((t, h))]


@settings(deadline=None)
@given(st.lists(st.tuples(HASHES, TIMES), max_size=80))
def test_any_rows(rows: list[tuple[int, int]]) -> None:
    h, t = np.array([h for h, _ in rows], np.uint64), np.array([t for _, t in rows], np.int64)
    assert sort_order(h, t).tolist() == _expected(h, t)


@pytest.mark.parametrize("keys", [1, 2, 30, 5_000])
@pytest.mark.parametrize("rows", [25, 1_000, 20_000])
def test_hot_keys_and_times_out_of_order(keys: int, rows: int) -> None:
    random = np.random.default_rng(keys)
    spread = random.integers(0, 2**64, keys, np.uint64)
    h, t = spread[random.integers(0, keys, rows)], random.integers(-50, 50, rows)
    h.flags.writeable = t.flags.writeable = False
    assert sort_order(h, t).tolist() == _expected(h, t)
    ordered = np.sort(t)
    assert sort_order(h, ordered).tolist() == _expected(h, ordered)


def test_permutation_is_of_row_numbers() -> None:
    assert sort_order(np.array([2, 1], np.uint64), np.zeros(2, np.int64)).dtype == np.int32


def test_more_rows_than_row_numbers_are_refused() -> None:
    endless = np.broadcast_to(np.uint64(0), (2**31,))
    with pytest.raises(InternalError, match="2147483648 rows"):
        sort_order(endless, np.broadcast_to(np.int64(0), (2**31,)))
