"""Conversion of columns read from files to the declared types; a cast that would change a value is an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.kernels.payload_types import casts_safely, payload_type
from weft.plan.types import Field

_ZONE = r"\d[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_FRACTION = r"(\.\d{6})\d+"
NOT_THE_FILES = (MemoryError, pa.ArrowCancelled)
"""Errors of Arrow that are not caused by the file: out of memory, or cancelled."""


class Misfit(Exception):
    """An error of a file as a whole, whatever its values are: for example, a column is missing or has another type."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read as declared: its place in the file, the reason, and its text."""

    place: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The columns to read from a stream's files; `time` is the event time, which every file must have."""

    fields: tuple[Field, ...]
    time: str = ""

    def empty(self) -> pa.Table:
        """Return an empty table of these columns."""
        return pa.schema([(field.name, cast_type(field) or pa.null()) for field in self.fields]).empty_table()

    def names_in(self, present: Sequence[str]) -> dict[str, str]:
        """Map declared names to the file's spelling, ignoring case like Spark; raise Misfit if a name is ambiguous."""
        spellings: dict[str, str] = {}
        for field in self.fields:
            matches = [name for name in present if name.lower() == field.name.lower()]
            if len(matches) > 1:
                raise Misfit(f'column "{field.name}" is there more than once')
            if matches:
                spellings[field.name] = matches[0]
        return spellings


def conform(table: pa.Table, wanted: WantedColumns) -> pa.Table:
    """Return the wanted columns in the declared types. A missing column is NULL; a missing event time is a Misfit."""
    names = wanted.names_in(table.column_names)
    arrays = []
    for field in wanted.fields:
        if field.name in names:
            arrays.append(_cast(table.column(names[field.name]), field))
        elif field.name == wanted.time:
            raise Misfit(f'column "{field.name}" is missing')
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, cast_type(field) or pa.null())]))
    return pa.table(arrays, names=[field.name for field in wanted.fields])


def cast_type(field: Field) -> pa.DataType | None:
    """Return the type that a column is cast to, or None for the rare types that are taken as they are."""
    try:
        return payload_type(field.type)
    except ValueError:
        return None


def bisect(count: int, decode: Callable[[int, int], pa.Table], bad: Callable[[int, str], None]) -> Iterator[pa.Table]:
    """Yield the rows 0 … count - 1 without those that cannot be decoded; `bad` gets each of these with the reason.

    `decode(start, end)` returns the rows from `start` up to `end`, or raises if one of them cannot be decoded.
    """
    ranges = [(0, count)]
    while ranges:
        start, end = ranges.pop()
        try:
            yield decode(start, end)
        except NOT_THE_FILES:
            raise
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if end - start == 1:
                bad(start, first_line(error))
            else:
                middle = (start + end) // 2
                ranges += [(middle, end), (start, middle)]


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, cut to 500 characters."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    target = cast_type(field)
    if target is None or column.type == target:
        return column
    source = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_time_text = holds_text(source) and (pa.types.is_timestamp(target) or pa.types.is_date(target))
    if not is_time_text and not casts_safely(source, target):
        raise Misfit(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: the types do not fit')
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(source)
        if is_time_text and pa.types.is_timestamp(target):
            return parse_times(column).cast(target)
        if pa.types.is_timestamp(source) and source.unit == "ns" and pa.types.is_timestamp(target):
            # Event time has microseconds, as in Spark; a plain cast would refuse finer values.
            column = pc.floor_temporal(column, unit="microsecond")
        return column.cast(target)
    except NOT_THE_FILES:
        raise
    except pa.ArrowException as error:
        kind = pa.ArrowInvalid if isinstance(error, pa.ArrowInvalid) else Misfit
        raise kind(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: {first_line(error)}') from error


def holds_text(type_: pa.DataType) -> bool:
    """Return whether the values of a type are texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def parse_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Parse ISO 8601 texts as instants, in UTC if they have no zone. Digits beyond the microsecond are cut off."""
    for zone in ("UTC", None):
        try:
            return column.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
    texts = pc.replace_substring_regex(column.cast(pa.string()), _FRACTION, r"\1")
    zoned = pc.match_substring_regex(texts, _ZONE)
    null = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, null).cast(pa.timestamp("us", "UTC"))
    without_zone = pc.if_else(zoned, null, texts).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(with_zone, without_zone)


def holds_times(column: pa.ChunkedArray) -> bool:
    """Return whether a column holds texts that can be parsed as instants."""
    if not holds_text(column.type) or column.null_count == len(column):
        return False
    try:
        parse_times(column)
    except pa.ArrowInvalid:
        return False
    return True
