"""Parquet and Arrow files, some rows at a time: as many as fit memory when they are decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.parquet

from weft.execution.input.conform import BadRow, Wanted, bisect, conform
from weft.execution.input.pieces import within_bytes

BYTES_DECODED = 128 << 20
_BYTES_READ = 1 << 20
_MOST_ROWS = 1 << 20
_SHORT = 8
"""Bytes a value, when encoded, below which texts are read as dictionaries: a column of one long text is tiny in a
Parquet file and endless in memory."""
_LONGEST_TEXT = 4000


def binary_tables(tables: Iterator[pa.Table], wanted: Wanted, bad: Callable[[BadRow], None]) -> Iterator[pa.Table]:
    """The wanted columns in the declared types; rows with a value that does not fit are set aside."""
    first = 0
    for some in (some for table in tables for some in within_bytes(table, BYTES_DECODED)):
        yield from _fitting(some, wanted, first, bad)
        first += some.num_rows


def _fitting(table: pa.Table, wanted: Wanted, first: int, bad: Callable[[BadRow], None]) -> Iterator[pa.Table]:
    def set_aside(row: int, reason: str) -> None:
        bad(BadRow(f"row {first + row + 1}", reason, _shown(table.slice(row, 1))))

    def decode(start: int, end: int) -> pa.Table:
        some = conform(table.slice(start, end - start), wanted)
        some.validate(full=True)  # texts may be anything in these formats, and who reads results needs UTF-8
        return some

    yield from bisect(table.num_rows, decode, set_aside)


def _shown(row: pa.Table) -> str:
    try:
        return str(row.to_pylist()[0])[:_LONGEST_TEXT]
    except (ValueError, OverflowError):  # a time that Python has no value for
        return str(row.to_string(preview_cols=row.num_columns))[:_LONGEST_TEXT]


def parquet_tables(path: str, wanted: Wanted | None) -> Iterator[pa.Table]:
    """The rows of a Parquet file as they are found; all columns if `wanted` is None."""
    metadata = pa.parquet.read_metadata(path)
    texts = _short_texts(metadata)
    # Read, not mapped: a fault of the disk is then an error, and not the end of the process.
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
    """Columns of texts that are in dictionaries, with few bytes for each value."""
    found: dict[str, bool] = {}
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for chunk in (group.column(number) for number in range(group.num_columns)):
            short = chunk.total_uncompressed_size < _SHORT * chunk.num_values
            text = chunk.physical_type == "BYTE_ARRAY" and chunk.has_dictionary_page and "." not in chunk.path_in_schema
            found[chunk.path_in_schema] = found.get(chunk.path_in_schema, True) and text and short
    return [name for name, is_short in found.items() if is_short]


def _rows_at_once(group: pa.parquet.RowGroupMetaData, names: list[str] | None) -> int:
    """How many rows of a row group are decoded together, by what its columns take in the file."""
    size = 0
    for chunk in (group.column(number) for number in range(group.num_columns)):
        if names is None or chunk.path_in_schema.split(".")[0] in names:
            size += max(chunk.total_uncompressed_size, 8 * chunk.num_values)
    return max(1, min(_MOST_ROWS, BYTES_DECODED * int(group.num_rows) // max(1, size)))


def arrow_tables(path: str, wanted: Wanted | None) -> Iterator[pa.Table]:
    """The rows of an Arrow file or stream, batch by batch; all columns if `wanted` is None."""
    for table in _arrow_batches(path):
        some = table if wanted is None else table.select(list(wanted.names_in(table.column_names).values()))
        for column in some.columns:
            _check_structure(column)
        yield some


def _check_structure(column: pa.ChunkedArray) -> None:
    """Raise if what a corrupt file says of its buffers is not so: to read them would end the process."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error):
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
