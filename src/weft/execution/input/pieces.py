"""Rows of a stream in pieces that fit memory: bounded in rows and in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

ROWS_AT_ONCE = 1 << 20
BYTES_AT_ONCE = 256 << 20
"""A piece is no larger, unless one row is; so no array comes near the 2 GiB that 32-bit offsets can tell apart."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of a stream on their way to the tag stage, and what had to be set aside to get them.

    A file is read wholly or not at all. If one has too many rows for a piece, `more` says that further pieces of it
    follow and that nothing of it counts before the last one; `void` says that the pieces before, up to the last one
    without `more`, do not count: the file turned out to be bad.
    """

    stream: str
    table: pa.Table
    bad_files: tuple[str, ...] = ()
    bad_rows: int = 0
    more: bool = False
    void: bool = False


_ROWS = "weft#rows:"


def aside_to_texts(piece: Piece) -> list[str]:
    """What a piece says was set aside, as texts that can travel through Spark beside its rows."""
    return [*piece.bad_files, *([f"{_ROWS}{piece.bad_rows}"] if piece.bad_rows else [])]


def aside_from_texts(texts: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """The inverse: files, and how many rows, of any number of pieces."""
    found = list(texts)
    rows = sum(int(text.removeprefix(_ROWS)) for text in found if text.startswith(_ROWS))
    return tuple(text for text in found if not text.startswith(_ROWS)), rows


def cut_pieces(tables: Iterable[pa.Table], rows: int, size: int | None = None) -> Iterator[pa.Table]:
    """The same rows in the same order, as few tables as possible of at most so many rows and bytes; none is empty."""
    limit = BYTES_AT_ONCE if size is None else size
    held: list[pa.Table] = []
    count = weight = 0
    for part in (part for table in tables for part in within_bytes(table, limit)):
        rest = part
        while rest.num_rows:
            if held and (weight + decoded_bytes(rest) > limit or rest.schema != held[0].schema):
                yield pa.concat_tables(held)
                held, count, weight = [], 0, 0
            some = rest.slice(0, rows - count)
            held.append(some)
            count, weight = count + some.num_rows, weight + decoded_bytes(some)
            rest = rest.slice(some.num_rows)
            if count == rows:
                yield pa.concat_tables(held)
                held, count, weight = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def within_bytes(table: pa.Table, limit: int) -> Iterator[pa.Table]:
    """The table, cut into halves until each has at most so many bytes when dictionaries are decoded, or one row."""
    if table.num_rows <= 1 or decoded_bytes(table) <= limit:
        yield table
        return
    half = table.num_rows // 2
    yield from within_bytes(table.slice(0, half), limit)
    yield from within_bytes(table.slice(half), limit)


def decoded_bytes(table: pa.Table) -> int:
    """Bytes of the values; a value that a dictionary holds once counts as often as it occurs."""
    total = 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            total += sum(_decoded(chunk) for chunk in column.chunks)
        else:
            total += column.nbytes
    return total


def _decoded(array: pa.DictionaryArray) -> int:
    values = array.dictionary
    if len(values) == 0 or len(array) == 0:
        return 0
    kind = values.type
    if not (_is_bytes(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)):
        return int(len(array) * max(8, values.nbytes // len(values)))
    sizes = pa.compute.binary_length(values).fill_null(0).take(array.indices)
    return int(pa.compute.sum(sizes.cast(pa.int64())).as_py() or 0) + 4 * len(array)


def _is_bytes(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    )
