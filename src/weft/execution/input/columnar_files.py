"""Readers of Parquet and Arrow files that decode a bounded number of bytes at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet

from weft.execution.input.conform import BadRow, WantedColumns, bisect, conform
from weft.execution.input.pieces import within_bytes

BYTES_DECODED = 128 << 20
_BYTES_READ = 1 << 20
_MOST_ROWS = 1 << 20
_SHORT = 8
"""Text columns with fewer encoded bytes per value than this are read as dictionaries: a column that repeats one long
text is tiny in a Parquet file and very large in memory."""
_LONGEST_TEXT = 4000


def binary_tables(
    tables: Iterator[pa.Table], wanted: WantedColumns, bad: Callable[[BadRow], None]
) -> Iterator[pa.Table]:
    """Yield the wanted columns in the declared types; pass rows with a value that does not fit to `bad`."""
    rows_before = 0
    for piece in (piece for table in tables for piece in within_bytes(table, BYTES_DECODED)):
        yield from _fitting(piece, wanted, rows_before, bad)
        rows_before += piece.num_rows


def _fitting(
    table: pa.Table, wanted: WantedColumns, rows_before: int, bad: Callable[[BadRow], None]
) -> Iterator[pa.Table]:
    def set_aside(row: int, reason: str) -> None:
        bad(BadRow(f"row {rows_before + row + 1}", reason, _shown(table.slice(row, 1))))

    def decode(start: int, end: int) -> pa.Table:
        rows = conform(table.slice(start, end - start), wanted)
        rows.validate(full=True)  # texts in these formats need not be UTF-8, which readers of results expect
        return rows

    yield from bisect(table.num_rows, decode, set_aside)


def _shown(row: pa.Table) -> str:
    try:
        return str(row.to_pylist()[0])[:_LONGEST_TEXT]
    except (ValueError, OverflowError):  # a time outside the range of Python's datetime
        return str(row.to_string(preview_cols=row.num_columns))[:_LONGEST_TEXT]


def parquet_tables(path: str, wanted: WantedColumns | None) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in the types of the file; all columns if `wanted` is None."""
    metadata = pa.parquet.read_metadata(path)
    texts = _short_texts(metadata)
    # Read instead of memory-mapped: a disk fault then raises an error and does not kill the process.
    with pa.parquet.ParquetFile(
        path, metadata=metadata, read_dictionary=texts, pre_buffer=False, buffer_size=_BYTES_READ
    ) as file:
        names = None if wanted is None else list(wanted.names_in(file.schema_arrow.names).values())
        if metadata.num_rows == 0:
            yield file.schema_arrow.empty_table() if names is None else file.schema_arrow.empty_table().select(names)
        for group in range(metadata.num_row_groups):
            rows = _rows_at_once(metadata.row_group(group), names)
            for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
                yield pa.Table.from_batches([batch])


def _short_texts(metadata: pa.parquet.FileMetaData) -> list[str]:
    """Return the dictionary-encoded text columns with fewer than `_SHORT` bytes per value in all row groups."""
    columns: dict[str, bool] = {}
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            is_short = chunk.total_uncompressed_size < _SHORT * chunk.num_values
            text = chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page and "." not in chunk.path_in_schema
            columns[chunk.path_in_schema] = columns.get(chunk.path_in_schema, True) and text and is_short
    return [name for name, is_short in columns.items() if is_short]


def _rows_at_once(group: pa.parquet.RowGroupMetaData, names: list[str] | None) -> int:
    """Return how many rows of a row group to decode at a time, estimated from the sizes of its columns in the file."""
    size = 0
    for chunk in (group.column(number) for number in range(group.num_columns)):
        if names is None or chunk.path_in_schema.split(".")[0] in names:
            size += max(chunk.total_uncompressed_size, 8 * chunk.num_values)
    return max(1, min(_MOST_ROWS, BYTES_DECODED * int(group.num_rows) // max(1, size)))


def arrow_tables(path: str, wanted: WantedColumns | None) -> Iterator[pa.Table]:
    """Yield an empty table, then an Arrow file or stream batch by batch; all columns if `wanted` is None."""
    for table in _arrow_batches(path):
        selected = table if wanted is None else table.select(list(wanted.names_in(table.column_names).values()))
        for column in selected.columns:
            _check_structure(column)
        yield selected


def _check_structure(column: pa.ChunkedArray) -> None:
    """Raise ArrowInvalid if buffers of a corrupt file are inconsistent: reading them would kill the process."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):  # invalid texts are set aside row by row
            raise


def _arrow_batches(path: str) -> Iterator[pa.Table]:
    with pa.memory_map(path) as data:
        try:
            reader = pa.ipc.open_file(data)
        except pa.ArrowInvalid:
            data.seek(0)
            stream = pa.ipc.open_stream(data)
            yield stream.schema.empty_table()
            yield from (pa.Table.from_batches([batch]) for batch in stream)
            return
        yield reader.schema.empty_table()
        yield from (pa.Table.from_batches([reader.get_batch(number)]) for number in range(reader.num_record_batches))
