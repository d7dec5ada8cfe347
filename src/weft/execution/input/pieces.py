"""Pieces of a stream's rows, bounded in rows and bytes so that they fit memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

ROWS_AT_ONCE = 1 << 20
BYTES_AT_ONCE = 256 << 20
"""Limit of a piece, unless one row is larger; arrays stay well below the 2 GiB that 32-bit offsets can address."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a stream on their way to the tag stage, and what was set aside while reading them.

    A file is read completely or not at all. If a file has too many rows for one piece, `more` says that further pieces
    of it follow; none of them counts until the last one arrives. `void` says that the file turned out to be bad: the
    pieces since the last one without `more` do not count.
    """

    stream: str
    table: pa.Table
    bad_files: tuple[str, ...] = ()
    bad_rows: int = 0
    more: bool = False
    void: bool = False


_ROWS = "weft#rows:"


def aside_to_texts(piece: Piece) -> list[str]:
    """Encode the bad files and rows of a piece as texts that travel through Spark beside its rows."""
    return [*piece.bad_files, *([f"{_ROWS}{piece.bad_rows}"] if piece.bad_rows else [])]


def aside_from_texts(texts: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Decode the texts of any number of pieces: return their bad files and the number of their bad rows."""
    entries = list(texts)
    rows = sum(int(text.removeprefix(_ROWS)) for text in entries if text.startswith(_ROWS))
    return tuple(text for text in entries if not text.startswith(_ROWS)), rows


def cut_pieces(tables: Iterable[pa.Table], rows: int, size: int | None = None) -> Iterator[pa.Table]:
    """Yield the same rows in as few non-empty tables as possible, each with at most `rows` rows and `size` bytes."""
    limit = BYTES_AT_ONCE if size is None else size
    held: list[pa.Table] = []
    count = weight = 0
    for chunk in (chunk for table in tables for chunk in within_bytes(table, limit)):
        remaining = chunk
        while remaining.num_rows:
            if held and (weight + decoded_bytes(remaining) > limit or remaining.schema != held[0].schema):
                yield pa.concat_tables(held)
                held, count, weight = [], 0, 0
            taken = remaining.slice(0, rows - count)
            held.append(taken)
            count, weight = count + taken.num_rows, weight + decoded_bytes(taken)
            remaining = remaining.slice(taken.num_rows)
            if count == rows:
                yield pa.concat_tables(held)
                held, count, weight = [], 0, 0
    if held:
        yield pa.concat_tables(held)


def within_bytes(table: pa.Table, limit: int) -> Iterator[pa.Table]:
    """Halve a table until each half has one row or at most `limit` bytes, counted with dictionaries decoded."""
    if table.num_rows <= 1 or decoded_bytes(table) <= limit:
        yield table
        return
    half = table.num_rows // 2
    yield from within_bytes(table.slice(0, half), limit)
    yield from within_bytes(table.slice(half), limit)


def decoded_bytes(table: pa.Table) -> int:
    """Return the bytes of a table's values, where a dictionary's value counts as often as it occurs."""
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
