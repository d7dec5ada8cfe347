"""Committed rows as JSON, page by page; what several readers ask for is read once."""

from __future__ import annotations

import base64
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weft.engine import Query
from weft.engine.core import Core
from weft.errors import InvalidRequest, ResultsGone

_EXACT = 2**53
"""Integers from here on are not exact where JSON's numbers are doubles."""
_LARGEST_CURSOR = 10**15
_KEPT = 256
_KEPT_BYTES = 64 << 20
"""Of what was read lately."""
_LARGEST_PIECE = 2000
"""Rows that go out together."""


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a query's rows: `skip` rows into batch `batch`."""

    batch: int
    skip: int = 0

    def skip_in(self, batch: int) -> int:
        """Rows of a batch that are before it."""
        return self.skip if batch == self.batch else 0

    def __str__(self) -> str:
        return f"{self.batch}.{self.skip}" if self.skip else str(self.batch)


def parse_cursor(text: str) -> Cursor:
    """A cursor that a client sent back; raises InvalidRequest."""
    batch, _, skip = text.partition(".")
    parts = [batch, skip or "0"]
    if not all(part.isascii() and part.isdigit() and int(part) < _LARGEST_CURSOR for part in parts):
        raise InvalidRequest(f"{text[:40]!r} is no cursor", hint="Give one that was in an answer, or leave it out.")
    return Cursor(int(batch), int(skip or 0))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one batch as JSON texts, one each."""

    batch: int
    texts: tuple[str, ...]

    def pieces(self, skip: int) -> Iterator[tuple[Cursor, Sequence[str]]]:
        """The rows in pieces, each with the cursor behind it."""
        for begin in range(skip, len(self.texts), _LARGEST_PIECE):
            end = begin + _LARGEST_PIECE
            behind = Cursor(self.batch, end) if end < len(self.texts) else Cursor(self.batch + 1)
            yield behind, self.texts[begin:end]


class RowReader:
    """Reads rows of queries for any number of clients; every call may take a while, and holds up no batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Rows] = OrderedDict()
        self._bytes = 0

    def batch(self, query: Query, batch: int) -> Rows:
        """A query's rows of a committed batch. Raises ResultsGone where they are not kept any more."""
        key = (query.id, batch)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        rows = Rows(batch, tuple(_texts(query, batch)))
        self._keep(key, rows)
        return rows

    def _keep(self, key: tuple[str, int], rows: Rows) -> None:
        size = sum(map(len, rows.texts))
        with self._lock:
            if size <= _KEPT_BYTES // 4 and key not in self._kept:
                self._kept[key] = rows
                self._bytes += size
            while self._kept and (len(self._kept) > _KEPT or self._bytes > _KEPT_BYTES):
                _, old = self._kept.popitem(last=False)
                self._bytes -= sum(map(len, old.texts))


def batches_with_rows(core: Core, query: Query, cursor: Cursor) -> tuple[list[int], int]:
    """Committed batches from a cursor on that may hold rows of a query, and the number of the next batch.

    Raises ResultsGone if some of them are not kept any more.
    """
    with core.lock:
        record = core.roster.records.get(query.id)
        following = core.next_batch
        if record is None:
            return [], following
        kept = core.inventory.results[0].batch if core.inventory.results else following
        first = max(cursor.batch, record.created)
        last = following if record.ended is None else min(following, record.ended)
    if first < min(kept, last):
        raise ResultsGone(
            f'rows of query "{query.name}" before batch {kept} are not kept any more',
            hint=f"Read on from cursor {kept}, or set engine.keep_results to more.",
        )
    return query.batches(first, last), following


def _texts(query: Query, batch: int) -> Iterator[str]:
    try:
        for table in query.tables(batch, batch + 1):
            yield from to_json_rows(table)
    except FileNotFoundError as error:
        raise ResultsGone(
            f'rows of query "{query.name}" in batch {batch} are not kept any more', hint="Read faster, or keep more."
        ) from error


def to_json_rows(table: pa.Table) -> Iterator[str]:
    """Rows as JSON lists."""
    columns = [column.to_pylist() for column in table.columns]
    for values in zip(*columns, strict=True):
        yield json.dumps([plain(value) for value in values], ensure_ascii=False, separators=(",", ":"))


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    match value:
        case None | bool() | str():
            return value
        case int() | float() | Decimal():
            return _number(value)
        case date() | timedelta():
            return _time(value)
        case bytes():
            return base64.b64encode(value).decode()
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case _:
            return str(value)


def _number(value: int | float | Decimal) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    exact = math.isfinite(value) if isinstance(value, float) else -_EXACT < value < _EXACT
    return value if exact else str(value)


def _time(value: date | timedelta) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.isoformat()
