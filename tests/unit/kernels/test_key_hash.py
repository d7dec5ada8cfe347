"""Hashes of join keys: what is equal hashes equal, whatever it is wrapped in, and what is on disk stays valid."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InternalError
from weft.kernels.hash_space import hash_range
from weft.kernels.key_hash import equal_rows, frozen, hash_keys

LONGS = st.integers(-(2**63), 2**63 - 1)
MOMENTS = [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2024, 2, 29, tzinfo=UTC), None]
VALUES = {
    "bigint": pa.array([0, 1, -1, None, 2**63 - 1, -(2**63)]),
    "int": pa.array([0, 1, -1, None, 2**31 - 1], pa.int32()),
    "boolean": pa.array([True, False, None]),
    "date": pa.array([date(1969, 12, 31), date(2024, 2, 29), None]),
    "timestamp": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "double": pa.array([0.5, -1.25, None, math.inf, math.nan]),
    "float": pa.array([0.5, -1.25, None, math.inf, math.nan], pa.float32()),
    "decimal": pa.array([Decimal("1.50"), Decimal("-7.25"), None, Decimal(10) ** 30], pa.decimal128(38, 2)),
    "string": pa.array(["", "a", "a\0", "exactly8", "longer than eight bytes", None, "größer"]),
    "binary": pa.array([b"", b"\0", b"\0\0", b"\xff" * 17, None]),
    "fixed": pa.array([b"abc", b"abd", None], pa.binary(3)),
    "null": pa.nulls(3),
}


def _hashes(*columns: pa.Array | pa.ChunkedArray) -> list[int | None]:
    result = hash_keys(columns)
    valid = np.ones(len(result.h), np.bool_) if result.valid is None else result.valid
    return [int(h) if ok else None for h, ok in zip(result.h, valid, strict=True)]


@pytest.mark.parametrize("name", VALUES)
def test_null_is_not_valid_and_has_hash_zero(name: str) -> None:
    array = VALUES[name]
    result = hash_keys([array])
    expected = array.is_valid().to_pylist()
    assert (result.valid.tolist() if result.valid is not None else [True] * len(array)) == expected
    assert all(h == 0 for h, valid in zip(result.h.tolist(), expected, strict=True) if not valid)


@pytest.mark.parametrize("name", VALUES)
def test_distinct_values_have_distinct_hashes(name: str) -> None:
    present = [h for h in _hashes(VALUES[name]) if h is not None]
    assert len(set(present)) == len(present)


@pytest.mark.parametrize("name", VALUES)
def test_slices_and_chunks_hash_as_the_whole(name: str) -> None:
    array = VALUES[name]
    whole = _hashes(array)
    for cut in range(len(array) + 1):
        assert _hashes(array.slice(cut)) == whole[cut:]
        chunks = pa.chunked_array([array.slice(0, cut), array.slice(cut)], array.type)
        assert _hashes(chunks) == whole
    assert _hashes(pa.chunked_array([], array.type)) == []


@pytest.mark.parametrize("name", [name for name in VALUES if name != "null"])
def test_dictionary_encoding_does_not_matter(name: str) -> None:
    array = VALUES[name]
    assert _hashes(array.dictionary_encode()) == _hashes(array)
    parts = pa.chunked_array([array.slice(2).dictionary_encode(), array.slice(0, 2).dictionary_encode()])
    assert _hashes(parts) == _hashes(array.slice(2)) + _hashes(array.slice(0, 2))


def test_width_does_not_matter() -> None:
    small = [0, 1, 100, None]
    expected = _hashes(pa.array(small, pa.int64()))
    for narrow in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()):
        assert _hashes(pa.array(small, narrow)) == expected
    assert _hashes(pa.array([0.5, None, -3.0], pa.float32())) == _hashes(pa.array([0.5, None, -3.0]))
    digits = [Decimal("1.5"), Decimal("-2.5"), None]
    wide = _hashes(pa.array(digits, pa.decimal128(38, 1)))
    for narrow in (pa.decimal128(3, 1), pa.decimal32(3, 1), pa.decimal64(12, 1)):
        assert _hashes(pa.array(digits, narrow)) == wide
    text = VALUES["string"]
    for other in (pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(), pa.large_binary()):
        assert _hashes(text.cast(pa.binary()).cast(other)) == _hashes(text)


def test_units_of_time_do_not_matter() -> None:
    moments = [datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC), None]
    expected = _hashes(pa.array(moments, pa.timestamp("us", "UTC")))
    for unit in ("s", "ms", "ns"):
        assert _hashes(pa.array(moments, pa.timestamp(unit, "UTC"))) == expected
        assert _hashes(pa.array(moments, pa.timestamp(unit, "UTC")).cast(pa.timestamp(unit))) == expected
    assert _hashes(pa.array(moments, pa.timestamp("us", "Europe/Berlin"))) == expected
    days = [date(1969, 12, 31), date(2024, 2, 29)]
    assert _hashes(pa.array(days, pa.date64())) == _hashes(pa.array(days, pa.date32()))


def test_nanoseconds_belong_to_the_tick_they_are_in() -> None:
    nanos = pa.array([-1, 1999], pa.timestamp("ns"))
    assert _hashes(nanos) == _hashes(pa.array([-1, 1], pa.timestamp("us")))


def test_zeros_and_nans_are_one_value_each() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF0000000000001, 0x7FFFFFFFFFFFFFFF], np.uint64)
    assert len(set(_hashes(pa.array(bits.view(np.float64))))) == 1
    assert len(set(_hashes(pa.array([0.0, -0.0])))) == 1


def test_exact_where_equal_hashes_prove_equal_keys() -> None:
    exact = {name for name, array in VALUES.items() if hash_keys([array]).exact}
    assert exact == {"bigint", "int", "boolean", "date", "timestamp", "double", "float", "null"}
    assert hash_keys([pa.array([Decimal(1)], pa.decimal128(18, 0))]).exact
    assert hash_keys([VALUES["int"], VALUES["int"]]).exact
    assert not hash_keys([VALUES["int"], VALUES["bigint"].slice(0, 5)]).exact
    assert not hash_keys([VALUES["int"]] * 3).exact


@settings(deadline=None)
@given(st.lists(LONGS, max_size=50, unique=True))
def test_integers_never_collide(values: list[int]) -> None:
    assert len(set(_hashes(pa.array(values, pa.int64())))) == len(values)


NARROW = st.integers(-(2**31), 2**31 - 1) | st.sampled_from([0, -1, 1, 2**31 - 1, -(2**31)])


@settings(deadline=None)
@given(st.lists(st.tuples(NARROW, NARROW), max_size=50, unique=True))
def test_two_narrow_integers_never_collide(pairs: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in pairs], [b for _, b in pairs]
    hashes = _hashes(pa.array(first, pa.int32()), pa.array(second, pa.int32()))
    assert len(set(hashes)) == len(pairs)
    assert _hashes(pa.array(first, pa.int64()), pa.array(second, pa.int32())) == hashes


@settings(deadline=None)
@given(st.lists(st.tuples(LONGS | NARROW, st.text(max_size=12) | st.none(), NARROW), max_size=20))
def test_keys_of_several_columns(rows: list[tuple[int, str | None, int]]) -> None:
    kinds = (pa.int64(), pa.string(), pa.int32())
    columns = [pa.array([row[k] for row in rows], kind) for k, kind in enumerate(kinds)]
    hashes = _hashes(*columns)
    for row, h in zip(rows, hashes, strict=True):
        assert (h is None) == (None in row)
        assert h is None or [other == row for other in rows] == [other == h for other in hashes]


def test_order_of_columns_counts() -> None:
    one, two = pa.array([1, 2**40]), pa.array([2, 7])
    assert not set(_hashes(one, two)) & set(_hashes(two, one))


def test_stored_hashes_stay_valid() -> None:
    """These values are on disk: a change here means that old state cannot be read."""
    assert _hashes(pa.array([0, 1, -1])) == [0, 0x5692161D100B05E5, 0xB4D055FCF2CBBD7B]
    assert _hashes(pa.array(["", "weft", "warp and weft"])) == [0, 0x43920A59BAA9BF24, 0x712B5740339D8249]
    assert _hashes(pa.array([1, 2**40]), pa.array([2, 3])) == [0xF2C6924E7DFED23E, 0x0578088E1E635D82]
    assert _hashes(pa.array([Decimal(10) ** 30], pa.decimal128(38, 0))) == [0xA22F8A7EAF691932]


def test_hashes_are_spread_over_the_whole_range() -> None:
    lows = np.array([hash_range(p, 64)[0] for p in range(64)], np.uint64)
    shares = np.bincount(np.searchsorted(lows, hash_keys([pa.array(range(64_000))]).h, side="right") - 1)
    assert shares.min() > 800
    assert shares.max() < 1200


def test_a_key_needs_columns_of_known_types() -> None:
    with pytest.raises(InternalError, match="no columns"):
        hash_keys([])
    for odd in (pa.array([[1]]), pa.array([2**64 - 1], pa.uint64()), pa.array([{"a": 1}])):
        with pytest.raises(InternalError, match="cannot be a join key"):
            hash_keys([odd])


@settings(deadline=None)
@given(st.data(), st.sampled_from(sorted(VALUES)))
def test_equal_rows_is_equality_of_values(data: st.DataObject, name: str) -> None:
    array = VALUES[name]
    rows = st.integers(0, len(array) - 1)
    pairs = data.draw(st.lists(st.tuples(rows, rows), max_size=10))
    ia = np.array([a for a, _ in pairs], np.int32)
    ib = np.array([b for _, b in pairs], np.int32)
    values = array.to_pylist()
    expected = [values[a] is not None and (a == b) for a, b in pairs]
    chunked = pa.chunked_array([array.slice(0, 1), array.slice(1)], array.type)
    assert equal_rows([array], [chunked], ia, ib).tolist() == expected
    assert equal_rows([array, array], [array, array], ia, ib).tolist() == expected


def test_equal_rows_tells_colliding_keys_apart() -> None:
    left = [pa.array([1, 1, 2**40]), pa.array(["a", "b", "a"])]
    right = [pa.array([1, 2**40], pa.int64()), pa.array(["a", "a"]).dictionary_encode()]
    ia, ib = np.array([0, 1, 2, 2], np.int32), np.array([0, 0, 0, 1], np.int32)
    assert equal_rows(left, right, ia, ib).tolist() == [True, False, False, True]


def test_equal_rows_refuses_types_that_have_no_common_form() -> None:
    none = np.empty(0, np.int32)
    with pytest.raises(InternalError, match="cannot be compared"):
        equal_rows([pa.array(["a"])], [pa.array([1])], none, none)


@given(st.integers(1, 4096))
def test_partitions_are_contiguous_ranges(partitions: int) -> None:
    ranges = [hash_range(p, partitions) for p in range(partitions)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 2**64 - 1
    assert all(low == before + 1 for (_, before), (low, _) in pairwise(ranges))


def test_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(InternalError, match="partition 3 is not one of 3"):
        hash_range(3, 3)


def test_frozen_copies_only_what_it_must() -> None:
    array = np.arange(8)
    view = frozen(array, np.int64)
    assert np.shares_memory(view, array)
    assert not view.flags.writeable
    assert array.flags.writeable
    odd = np.frombuffer(b"\0" + array.tobytes(), np.int64, offset=1)
    assert frozen(odd, np.int64).flags.aligned
    assert frozen(array[::2], np.int64).flags.c_contiguous
