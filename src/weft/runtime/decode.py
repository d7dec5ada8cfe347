"""Source files → Arrow tables of the declared schema, decoded by Arrow instead of Spark's row readers."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from weft.errors import BadFile
from weft.kernels.payload_types import fits, payload_type
from weft.plan.stream import FileSource, Format, Stream
from weft.plan.types import Field


def local_path(url: str) -> str:
    """The local file behind a path as Spark reports it: `file:/a b`, nothing in it is encoded."""
    return "/" + url.removeprefix("file:").lstrip("/") if url.startswith("file:") else url


def read_files(
    stream: Stream, urls: Iterable[str], *, columns: Sequence[str], quarantine: str
) -> tuple[pa.Table, tuple[str, ...]]:
    """The rows of some files of a stream and the files set aside.

    A file that cannot be read as the stream's schema is copied to quarantine and left out, or fails the batch if the
    stream says so: one bad file must not hold up every query.
    """
    source = stream.source
    assert isinstance(source, FileSource)
    wanted = [field for field in stream.schema if field.name in set(columns)]
    tables, bad = [], []
    for url in urls:
        path = local_path(url)
        try:
            tables.append(read_file(source, path, wanted))
        except BadFile as error:
            if source.on_bad_file == "fail":
                raise
            _set_aside(Path(path), Path(quarantine) / stream.name, error)
            bad.append(f"{path}: {error.detail}")
    empty = pa.schema([(field.name, _type_of(field) or pa.null()) for field in wanted]).empty_table()
    return (pa.concat_tables(tables) if tables else empty), tuple(bad)


def read_file(source: FileSource, path: str, wanted: Sequence[Field]) -> pa.Table:
    """The wanted columns of one file, in the declared types."""
    return _guarded(source, path, lambda: _conform(_decode(source, path, wanted), wanted))


def decode_file(source: FileSource, path: str) -> pa.Table:
    """All columns of one file, in the types they are found with."""
    return _guarded(source, path, lambda: _decode(source, path, None))


def _guarded(source: FileSource, path: str, read: Callable[[], pa.Table]) -> pa.Table:
    try:
        return read()
    except FileNotFoundError as error:
        raise BadFile(f'file "{path}" is gone', detail="It was removed before it was read.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise BadFile(
            f'file "{path}" cannot be read as {source.format.value}',
            detail=detail,
            hint="Repair it and add it again under another name; a copy is in the quarantine folder.",
        ) from error


def _decode(source: FileSource, path: str, wanted: Sequence[Field] | None) -> pa.Table:
    match source.format:
        case Format.PARQUET:
            with pa.parquet.ParquetFile(path, memory_map=True) as file:
                names = None if wanted is None else _match_names(file.schema_arrow.names, wanted)
                return file.read(columns=names, use_threads=False)
        case Format.ARROW:
            with pa.memory_map(path) as data:
                try:
                    return pa.ipc.open_file(data).read_all()
                except pa.ArrowInvalid:
                    data.seek(0)
                    return pa.ipc.open_stream(data).read_all()
        case Format.JSON:
            return _decode_json(path, wanted)
        case Format.CSV:
            return _decode_csv(path, wanted, dict(source.options))


def _spelled(present: Sequence[str], wanted: Sequence[Field] | None) -> pa.Schema:
    """Types for text formats: what is declared is parsed as declared, under the names the file has for it."""
    lowered = {name.lower(): name for name in present}
    fields = [(field, _type_of(field)) for field in wanted or ()]
    return pa.schema(
        [(f.name if f.name in present else lowered.get(f.name.lower(), f.name), t) for f, t in fields if t is not None]
    )


def _as_text(schema: pa.Schema) -> pa.Schema:
    """Dates and times are read as text first: Arrow's readers do not take all that ISO 8601 allows."""
    return pa.schema([(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in schema])


def _decode_json(path: str, wanted: Sequence[Field] | None) -> pa.Table:
    schema = _as_text(_spelled(_json_names(path), wanted))
    if Path(path).stat().st_size == 0:
        return schema.empty_table()
    options = pa.json.ParseOptions(explicit_schema=schema) if wanted is not None else None
    table = pa.json.read_json(path, read_options=pa.json.ReadOptions(use_threads=False), parse_options=options)
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    table.validate(full=True)
    return table


def _json_names(path: str) -> list[str]:
    """Names in the first record; what cannot be read here is for the reader to complain about."""
    with open(path, "rb") as file:
        line = next((line for line in file if line.strip()), b"{}")
    try:
        first = json.loads(line)
    except ValueError:
        return []
    return list(first) if isinstance(first, dict) else []


def _decode_csv(path: str, wanted: Sequence[Field] | None, options: dict[str, str]) -> pa.Table:
    separator = options.get("sep", ",")
    schema = _as_text(_spelled(_csv_names(path, separator), wanted))
    if Path(path).stat().st_size == 0:
        return schema.empty_table()
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[options.get("nullValue", "")],
        column_types=schema,
    )
    return pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=separator),
        convert_options=convert,
    )


def _csv_names(path: str, separator: str) -> list[str]:
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        return next(csv.reader(file, delimiter=separator), [])


def _match_names(present: Sequence[str], wanted: Sequence[Field]) -> list[str]:
    lowered = {field.name.lower() for field in wanted}
    return [name for name in present if name.lower() in lowered]


def _conform(table: pa.Table, wanted: Sequence[Field]) -> pa.Table:
    """The wanted columns by name (as Spark: whatever the case), cast where no value can change."""
    arrays = [_cast(_find(table, field), field) for field in wanted]
    return pa.table(arrays, names=[field.name for field in wanted])


def _find(table: pa.Table, field: Field) -> pa.ChunkedArray:
    lowered = field.name.lower()
    found = [table.column(at) for at, name in enumerate(table.column_names) if name.lower() == lowered]
    if not found:
        raise pa.ArrowInvalid(f'column "{field.name}" is missing')
    filled = [column for column in found if column.null_count < len(column)]
    if len(filled) > 1:
        raise pa.ArrowInvalid(f'column "{field.name}" is there more than once')
    return (filled or found)[0]


def _type_of(field: Field) -> pa.DataType | None:
    """The type a column is cast to; None for the rare ones that are taken as they are."""
    try:
        return payload_type(field.type)
    except ValueError:
        return None


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    target = _type_of(field)
    if target is None or column.type == target:
        return column
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if _is_text(column.type) and pa.types.is_timestamp(target):
            return _parse_times(column).cast(target)
        if not fits(column.type, target) and not (_is_text(column.type) and pa.types.is_date(target)):
            raise pa.ArrowInvalid("the types do not fit")
        return column.cast(target)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise pa.ArrowInvalid(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: {reason}') from error


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def _parse_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 text with or without a zone; without one it is UTC."""
    try:
        return column.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us"))


def holds_times(column: pa.ChunkedArray) -> bool:
    """Whether a column of text can be read as instants."""
    if not _is_text(column.type) or column.null_count == len(column):
        return False
    try:
        _parse_times(column)
    except pa.ArrowInvalid:
        return False
    return True


def _set_aside(path: Path, folder: Path, error: BadFile) -> None:
    """Keep a copy and the reason: what cannot be read now is not lost."""
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        shutil.copyfile(path, folder / path.name)
    (folder / (path.name + ".reason")).write_text(str(error))
