"""Source files → Arrow tables of the declared schema, decoded by Arrow instead of Spark's row readers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from weft.errors import BadFile
from weft.kernels.arrow_types import arrow_type
from weft.plan.stream import FileSource, Format, Stream
from weft.plan.types import Field, Kind


def local_path(url: str) -> str:
    """The local file behind a path as Spark reports it (`file:/a%20b`)."""
    parts = urlsplit(url)
    return unquote(parts.path) if parts.scheme == "file" else url


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
    empty = pa.table(
        {f.name: pa.nulls(0, pa.null() if f.type.kind is Kind.OTHER else arrow_type(f.type)) for f in wanted}
    )
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


def _text_schema(wanted: Sequence[Field] | None) -> pa.Schema:
    """Types for text formats: what is declared is parsed as declared, never guessed from the first lines."""
    return pa.schema([(field.name, arrow_type(field.type)) for field in wanted or () if field.type.kind != Kind.OTHER])


def _decode_json(path: str, wanted: Sequence[Field] | None) -> pa.Table:
    schema = _text_schema(wanted)
    if Path(path).stat().st_size == 0:
        return schema.empty_table()
    # Timestamps with a zone are read as text first: Arrow's JSON reader does not take offsets into them.
    plain = pa.schema([(f.name, pa.string() if pa.types.is_timestamp(f.type) else f.type) for f in schema])
    options = pa.json.ParseOptions(explicit_schema=plain) if wanted is not None else None
    table = pa.json.read_json(path, read_options=pa.json.ReadOptions(use_threads=False), parse_options=options)
    for name in (wanted and [f.name for f in schema]) or ():
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, plain.field(name).type))
    return table


def _decode_csv(path: str, wanted: Sequence[Field] | None, options: dict[str, str]) -> pa.Table:
    convert = pa.csv.ConvertOptions(
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[options.get("nullValue", "")],
        column_types={f.name: pa.string() if pa.types.is_timestamp(f.type) else f.type for f in _text_schema(wanted)},
    )
    return pa.csv.read_csv(
        path,
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(delimiter=options.get("sep", ",")),
        convert_options=convert,
    )


def _match_names(present: Sequence[str], wanted: Sequence[Field]) -> list[str]:
    lowered = {field.name.lower() for field in wanted}
    return [name for name in present if name.lower() in lowered]


def _conform(table: pa.Table, wanted: Sequence[Field]) -> pa.Table:
    """The wanted columns by name (as Spark: whatever the case), cast where no value can change."""
    places = {name.lower(): place for place, name in enumerate(table.column_names)}
    arrays = []
    for field in wanted:
        place = places.get(field.name.lower())
        if place is None:
            raise pa.ArrowInvalid(f'column "{field.name}" is missing')
        arrays.append(_cast(table.column(place), field))
    return pa.table(arrays, names=[field.name for field in wanted])


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    if field.type.kind is Kind.OTHER:
        return column
    target = arrow_type(field.type)
    if column.type == target:
        return column
    try:
        if pa.types.is_string(column.type) and pa.types.is_timestamp(target):
            return _parse_times(column).cast(target)
        if not _is_kin(column.type, target):
            raise pa.ArrowInvalid("the types do not fit")
        return column.cast(target)
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise pa.ArrowInvalid(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: {reason}') from error


def _parse_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 text with or without a zone; without one it is UTC."""
    try:
        return column.cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us"))


def _is_kin(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether a value of one type is meant to be one of the other: numbers, times and texts among themselves."""
    families = (
        (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        (pa.types.is_timestamp, pa.types.is_date),
        (pa.types.is_string, pa.types.is_large_string, pa.types.is_dictionary, pa.types.is_string_view),
        (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
        (pa.types.is_boolean,),
    )
    if pa.types.is_null(found):
        return True
    return any(any(t(found) for t in family) and any(t(target) for t in family) for family in families)


def _set_aside(path: Path, folder: Path, error: BadFile) -> None:
    """Keep a copy and the reason: what cannot be read now is not lost."""
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        shutil.copyfile(path, folder / path.name)
    (folder / (path.name + ".reason")).write_text(str(error))
