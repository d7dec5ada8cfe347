"""64-bit hashes of join keys: equal keys have equal hashes in every process, on every platform and in any encoding.

Hashes are stored on disk, so the hash functions must never change. Every column is first converted to one canonical
form (64-bit words, 128-bit words, or bytes); hashing and comparing see only that form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, assert_never

import numba as nb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import InternalError

Hashes: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Column: TypeAlias = pa.Array | pa.ChunkedArray
_Scalar = TypeVar("_Scalar", bound=np.generic)

_NAN_BITS = 0x7FF8000000000000


@dataclass(frozen=True, slots=True)
class KeyHash:
    """Hashes of a key, one per row; `valid` is False where a key column is NULL, and None if no row has a NULL.

    If `exact`, equal hashes imply equal keys. A join must verify its pairs unless both sides are exact.
    """

    h: Hashes
    valid: Flags | None
    exact: bool


@dataclass(frozen=True, slots=True)
class _Words:
    """One int64 per row; `bits` is the number of significant bits (32 for an INT column)."""

    values: npt.NDArray[np.int64]
    valid: Flags | None
    bits: int


@dataclass(frozen=True, slots=True)
class _Pairs:
    """One 128-bit integer per row as (low, high); `bits` as in `_Words`."""

    values: npt.NDArray[np.int64]
    valid: Flags | None
    bits: int


@dataclass(frozen=True, slots=True)
class _Bytes:
    """One byte string per row: row i is data[offsets[i]:offsets[i + 1]]."""

    offsets: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    valid: Flags | None


_Canonical: TypeAlias = _Words | _Pairs | _Bytes


def hash_keys(columns: Sequence[Column]) -> KeyHash:
    """Return the hash of each row's key; a key that contains a NULL is not valid and has hash 0."""
    forms = [_canonical(column) for column in columns]
    match forms:
        case [_Words(values=first, bits=first_bits), _Words(values=second, bits=second_bits)]:
            # Two narrow integers are hashed as one word. `_hash_two` decides this per value, not per type,
            # because the other side of the join may hold the same numbers in wider columns.
            h = _hash_two(first, second)
            exact = first_bits <= 32 and second_bits <= 32
        case [only]:
            h = _hash_column(only)
            exact = not isinstance(only, _Bytes) and only.bits <= 64
        case [head, *tail]:
            h = _hash_column(head)
            for form in tail:
                h = _combine(h, _hash_column(form))
            exact = False
        case _:
            raise InternalError("a join key has no columns")
    valid = _all_valid([form.valid for form in forms])
    if valid is not None:
        h[~valid] = 0
    return KeyHash(h, valid, exact)


def equal_rows(
    left: Sequence[Column], right: Sequence[Column], ia: npt.NDArray[np.int32], ib: npt.NDArray[np.int32]
) -> Flags:
    """Return, for each k, whether left row ia[k] and right row ib[k] have equal keys; NaN equals NaN, NULL nothing."""
    equal = np.ones(len(ia), np.bool_)
    first, second = frozen(ia, np.int32), frozen(ib, np.int32)
    for column, other in zip(left, right, strict=True):
        match _canonical(column), _canonical(other):
            case (_Words() as a, _Words() as b) | (_Pairs() as a, _Pairs() as b):
                _equal_words(a.values.reshape(len(column), -1), b.values.reshape(len(other), -1), first, second, equal)
            case (_Bytes() as a, _Bytes() as b):
                _equal_bytes((a.offsets, a.data), (b.offsets, b.data), first, second, equal)
            case _:
                raise InternalError(f"key columns of types {column.type} and {other.type} cannot be compared")
        for valid, rows in ((a.valid, ia), (b.valid, ib)):
            if valid is not None:
                equal &= valid[rows]
    return equal


def frozen(array: npt.NDArray[Any], dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Return the array as all kernels take it (contiguous, aligned, read-only); copy it only if necessary.

    Numba compiles a kernel for each combination of these properties, so a memory-mapped and a fresh array would
    otherwise cost one compilation each.
    """
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.aligned and not flags.writeable:
        return array
    view = np.require(array, dtype, ("C", "A")).view()
    view.flags.writeable = False
    return view


def _canonical(column: Column) -> _Canonical:
    array = _single_array(column)
    kind = array.type
    if pa.types.is_null(kind):
        return _Words(frozen(np.zeros(len(array)), np.int64), np.zeros(len(array), np.bool_), 0)
    valid = _validity(array)
    if pa.types.is_large_binary(kind):
        return _bytes(array, valid)
    if pa.types.is_decimal128(kind):
        return _Pairs(_buffer(array, np.int64, 2), valid, 64 if kind.precision <= 18 else 128)
    if pa.types.is_floating(kind):
        return _Words(_float_bits(_buffer(array, np.float32 if kind.bit_width == 32 else np.float64)), valid, 64)
    values = _buffer(array, _INTEGERS[kind.bit_width])
    return _Words(frozen(values, np.int64), valid, kind.bit_width)


_INTEGERS: dict[int, type[np.signedinteger[Any]]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def _single_array(column: Column) -> pa.Array:
    """Return the column, whatever its chunks, encoding and width, as one array of a type that `_canonical` handles."""
    target = _plain_type(column.type)
    if isinstance(column, pa.ChunkedArray):
        chunks = [_plain_array(chunk, target) for chunk in column.chunks]
        return chunks[0] if len(chunks) == 1 else pa.concat_arrays([pa.nulls(0, target), *chunks])
    return _plain_array(column, target)


def _plain_array(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        # Event time is in microseconds; a cast would round negative times towards zero.
        array = pc.floor_temporal(array, unit="microsecond")
    # Arrow has no direct cast from string views to binary.
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    return array.cast(target)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_boolean(kind):
        return pa.int8()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_unsigned_integer(kind) and kind.bit_width < 64:
        return pa.int64()
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if any(is_bytes(kind) for is_bytes in _BYTES):
        return pa.large_binary()
    if any(is_kept(kind) for is_kept in _KEPT):
        return kind
    raise InternalError(f"a column of type {kind} cannot be a join key")


_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
_KEPT = (pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64, pa.types.is_decimal128, pa.types.is_null)


def _validity(array: pa.Array) -> Flags | None:
    """Return validity flags from the bitmap; pyarrow's own conversion would import pandas into every worker."""
    if array.null_count == 0:
        return None
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].view(np.bool_)


def _bytes(array: pa.Array, valid: Flags | None) -> _Bytes:
    _, offset_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return _Bytes(frozen(np.zeros(1), np.int64), frozen(np.empty(0), np.uint8), valid)
    offsets = np.frombuffer(offset_buffer, np.int64, array.offset + len(array) + 1)[array.offset :]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return _Bytes(frozen(offsets, np.int64), frozen(data, np.uint8), valid)


def _buffer(array: pa.Array, dtype: type[np.generic], width: int = 1) -> npt.NDArray[Any]:
    values = array.buffers()[1]
    if len(array) == 0 or values is None:
        return frozen(np.zeros(len(array) * width, dtype), dtype)
    return frozen(np.frombuffer(values, dtype, (array.offset + len(array)) * width)[array.offset * width :], dtype)


def _float_bits(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    with np.errstate(invalid="ignore"):  # signalling NaNs, and arbitrary values under NULLs
        doubles = values.astype(np.float64) + 0.0  # turns -0.0 into 0.0
    bits = doubles.view(np.int64)
    bits[np.isnan(doubles)] = _NAN_BITS
    return frozen(bits, np.int64)


def _hash_column(form: _Canonical) -> Hashes:
    match form:
        case _Words(values=values):
            return _hash_words(values)
        case _Pairs(values=values):
            return _hash_pairs(values)
        case _Bytes(offsets=offsets, data=data):
            return _hash_bytes(offsets, data)
        case _:
            assert_never(form)


def _all_valid(flags: list[Flags | None]) -> Flags | None:
    known = [valid for valid in flags if valid is not None]
    return np.logical_and.reduce(known) if known else None


@nb.njit(cache=True, nogil=True)
def _mix(word: np.uint64) -> np.uint64:
    """Apply the finalizer of splitmix64, a bijection in which every input bit affects every output bit."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@nb.njit(cache=True, nogil=True)
def _join_words(first: np.uint64, second: np.uint64) -> np.uint64:
    return _mix(first * np.uint64(0x9E3779B97F4A7C15) + second)


@nb.njit(cache=True, nogil=True)
def _hash_words(values: npt.NDArray[np.int64]) -> Hashes:
    out = np.empty(len(values), np.uint64)
    for i in range(len(values)):
        out[i] = _mix(np.uint64(values[i]))
    return out


@nb.njit(cache=True, nogil=True)
def _hash_two(first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> Hashes:
    out = np.empty(len(first), np.uint64)
    for i in range(len(first)):
        a, b = first[i], second[i]
        if a == np.int32(a) and b == np.int32(b):
            out[i] = _mix((np.uint64(a) << np.uint64(32)) | np.uint64(np.uint32(b)))
        else:
            out[i] = _join_words(_mix(np.uint64(a)), _mix(np.uint64(b)))
    return out


@nb.njit(cache=True, nogil=True)
def _hash_pairs(values: npt.NDArray[np.int64]) -> Hashes:
    """Hash 128-bit integers; one that fits in 64 bits hashes as that word, so decimals of up to 18 digits are exact."""
    out = np.empty(len(values) // 2, np.uint64)
    for i in range(len(out)):
        low, high = values[2 * i], values[2 * i + 1]
        if high == low >> 63:
            out[i] = _mix(np.uint64(low))
        else:
            out[i] = _join_words(_mix(np.uint64(high)), np.uint64(low))
    return out


@nb.njit(cache=True, nogil=True)
def _word(data: npt.NDArray[np.uint8], at: np.uint64, end: np.uint64) -> np.uint64:
    """Return up to eight bytes as a little-endian word, on any machine; missing bytes are zero.

    The code is unrolled and its positions are unsigned, because only then does the compiler emit a single load.
    """
    one = np.uint64(1)
    if at + np.uint64(8) <= end:
        word = np.uint64(data[at])
        word |= np.uint64(data[at + one]) << np.uint64(8)
        word |= np.uint64(data[at + np.uint64(2)]) << np.uint64(16)
        word |= np.uint64(data[at + np.uint64(3)]) << np.uint64(24)
        word |= np.uint64(data[at + np.uint64(4)]) << np.uint64(32)
        word |= np.uint64(data[at + np.uint64(5)]) << np.uint64(40)
        word |= np.uint64(data[at + np.uint64(6)]) << np.uint64(48)
        word |= np.uint64(data[at + np.uint64(7)]) << np.uint64(56)
        return word
    word = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        word |= np.uint64(data[at]) << shift
        shift += np.uint64(8)
        at += one
    return word


@nb.njit(cache=True, nogil=True)
def _hash_bytes(offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> Hashes:
    """Hash byte strings; the length initializes the state, so trailing zero bytes count."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for i in range(len(out)):
        at, end = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        state = _mix(end - at)
        while at < end:
            state = _mix(state ^ _word(data, at, end))
            at += np.uint64(8)
        out[i] = _mix(state)
    return out


@nb.njit(cache=True, nogil=True)
def _combine(first: Hashes, second: Hashes) -> Hashes:
    out = np.empty(len(first), np.uint64)
    for i in range(len(first)):
        out[i] = _join_words(first[i], second[i])
    return out


@nb.njit(cache=True, nogil=True)
def _equal_words(
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    ia: npt.NDArray[np.int32],
    ib: npt.NDArray[np.int32],
    equal: Flags,
) -> None:
    for k in range(len(ia)):
        for w in range(left.shape[1]):
            equal[k] &= left[ia[k], w] == right[ib[k], w]


@nb.njit(cache=True, nogil=True)
def _equal_bytes(
    left: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    right: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]],
    ia: npt.NDArray[np.int32],
    ib: npt.NDArray[np.int32],
    equal: Flags,
) -> None:
    offsets, data = left
    other_offsets, other_data = right
    for k in range(len(ia)):
        at, end = np.uint64(offsets[ia[k]]), np.uint64(offsets[ia[k] + 1])
        other_at, other_end = np.uint64(other_offsets[ib[k]]), np.uint64(other_offsets[ib[k] + 1])
        same = end - at == other_end - other_at
        while same and at < end:
            same = _word(data, at, end) == _word(other_data, other_at, other_end)
            at += np.uint64(8)
            other_at += np.uint64(8)
        equal[k] &= same
