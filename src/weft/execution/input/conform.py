"""Columns as they are found in files → columns of the declared types, where no value can change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.kernels.payload_types import fits, payload_type
from weft.plan.types import Field

_ZONE = r"\d[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_FRACTION = r"(\.\d{6})\d+"
NOT_THE_FILES = (MemoryError, pa.ArrowCancelled)
"""Errors of Arrow that say nothing of what it reads: there was no memory, or it was told to stop."""


class Misfit(Exception):
    """No row of a file can be read as declared, whatever its values are: a column is missing or of another type."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be read as declared: where it is in its file, why, and what is written there."""

    place: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that are wanted of a stream's files; `time` is the event time, without which no row is of use."""

    fields: tuple[Field, ...]
    time: str = ""

    def empty(self) -> pa.Table:
        """No rows of them."""
        return pa.schema([(field.name, type_of(field) or pa.null()) for field in self.fields]).empty_table()

    def names_in(self, present: Sequence[str]) -> dict[str, str]:
        """How the file spells the declared names (as Spark: whatever the case); Misfit if it has two for one."""
        found: dict[str, str] = {}
        for field in self.fields:
            same = [name for name in present if name.lower() == field.name.lower()]
            if len(same) > 1:
                raise Misfit(f'column "{field.name}" is there more than once')
            if same:
                found[field.name] = same[0]
        return found


def conform(table: pa.Table, wanted: Wanted) -> pa.Table:
    """The wanted columns in the declared types; one that is not there is NULL, except the event time."""
    names = wanted.names_in(table.column_names)
    arrays = []
    for field in wanted.fields:
        if field.name in names:
            arrays.append(_cast(table.column(names[field.name]), field))
        elif field.name == wanted.time:
            raise Misfit(f'column "{field.name}" is missing')
        else:
            arrays.append(pa.chunked_array([pa.nulls(table.num_rows, type_of(field) or pa.null())]))
    return pa.table(arrays, names=[field.name for field in wanted.fields])


def type_of(field: Field) -> pa.DataType | None:
    """The type a column is cast to; None for the rare ones that are taken as they are."""
    try:
        return payload_type(field.type)
    except ValueError:
        return None


def bisect(count: int, decode: Callable[[int, int], pa.Table], bad: Callable[[int, str], None]) -> Iterator[pa.Table]:
    """The rows 0 … count - 1 without those that cannot be decoded, which `bad` is told with the reason.

    `decode` reads the rows from one number up to another, or raises for one of them.
    """
    waiting = [(0, count)]
    while waiting:
        start, end = waiting.pop()
        try:
            yield decode(start, end)
        except NOT_THE_FILES:
            raise
        except (pa.ArrowException, UnicodeDecodeError) as error:
            if end - start == 1:
                bad(start, first_line(error))
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]


def first_line(error: BaseException) -> str:
    """What an error says, in one line of bounded length."""
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


def _cast(column: pa.ChunkedArray, field: Field) -> pa.ChunkedArray:
    target = type_of(field)
    if target is None or column.type == target:
        return column
    found = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    texts = is_text(found) and (pa.types.is_timestamp(target) or pa.types.is_date(target))
    if not texts and not fits(found, target):
        raise Misfit(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: the types do not fit')
    try:
        if pa.types.is_dictionary(column.type):
            column = column.cast(found)
        if texts and pa.types.is_timestamp(target):
            return parse_times(column).cast(target)
        if pa.types.is_timestamp(found) and found.unit == "ns" and pa.types.is_timestamp(target):
            # The tick of event time is a microsecond, as in Spark; a cast would refuse what lies between two.
            column = pc.floor_temporal(column, unit="microsecond")
        return column.cast(target)
    except NOT_THE_FILES:
        raise
    except pa.ArrowException as error:
        kind = pa.ArrowInvalid if isinstance(error, pa.ArrowInvalid) else Misfit
        raise kind(f'column "{field.name}" is {column.type}, not {field.type.ddl()}: {first_line(error)}') from error


def is_text(type_: pa.DataType) -> bool:
    """Whether values of a type are texts."""
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


def parse_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """ISO 8601 text with or without a zone; without one it is UTC. Digits beyond the microsecond are cut off."""
    for zone in ("UTC", None):
        try:
            return column.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:
            continue
    texts = pc.replace_substring_regex(column.cast(pa.string()), _FRACTION, r"\1")
    zoned = pc.match_substring_regex(texts, _ZONE)
    nothing = pa.scalar(None, pa.string())
    with_zone = pc.if_else(zoned, texts, nothing).cast(pa.timestamp("us", "UTC"))
    without = pc.if_else(zoned, nothing, texts).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pc.coalesce(with_zone, without)


def holds_times(column: pa.ChunkedArray) -> bool:
    """Whether a column of text can be read as instants."""
    if not is_text(column.type) or column.null_count == len(column):
        return False
    try:
        parse_times(column)
    except pa.ArrowInvalid:
        return False
    return True
