"""Committed rows as JSON, page by page; what several readers ask for is read once."""

from __future__ import annotations

import base64
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from weft.engine import Query
from weft.engine.core import Core
from weft.engine.queries.look import looking
from weft.engine.results.leases import kept_from
from weft.errors import InvalidRequest, ResultsGone
from weft.execution.results.recent import Lately
from weft.kernels.python_values import python_values

_EXACT = 2**53
"""Integers from here on are not exact where JSON's numbers are doubles."""
_LARGEST_CURSOR = 10**15
LOOK_AHEAD = 16
"""Batches that are looked at together at first: the rows that are wanted may be in the next one."""
_LONGEST_LOOK = 1024
"""Batches that are looked at together at last, where rows are rare."""
_KEPT_BYTES = 64 << 20
"""Of what was read lately."""
_OF_ROWS = 1000
"""Bytes that a piece without rows takes, with its key."""
PIECE_ROWS = 2000
"""Rows that are read together, and go out together."""
PIECE_BYTES = 4 << 20
"""Bytes of them; a row that is larger goes alone."""


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
    """Consecutive rows of one batch as JSON texts, one each."""

    first: Cursor
    """Where they begin."""
    texts: tuple[str, ...]
    behind: Cursor
    """Where to read on: in the same batch, or with the next one if these were the last."""

    def since(self, skip: int, most: int) -> Rows:
        """Those from row `skip` of the batch on, at most so many."""
        begin = skip - self.first.skip
        texts = self.texts[begin : begin + most]
        ended = begin + most >= len(self.texts)
        behind = self.behind if ended else Cursor(self.first.batch, skip + len(texts))
        return Rows(Cursor(self.first.batch, skip), texts, behind)


class RowReader:
    """Reads rows of queries for any number of clients; every call may take a while, and holds up no batch.

    No more rows are built than are asked for, and no more bytes than `PIECE_BYTES` but for one row.
    """

    def __init__(self) -> None:
        self._kept: Lately[Rows] = Lately(_KEPT_BYTES)

    def rows(self, query: Query, at: Cursor, most: int = PIECE_ROWS) -> Rows:
        """Rows of a committed batch from a cursor on. Raises ResultsGone where they are not kept any more."""
        key = (query.id, at.batch, at.skip)
        known = self._kept.get(key)
        if known is not None and (len(known.texts) >= most or known.behind.batch > at.batch):
            return known.since(at.skip, most)
        rows = _read(query, at, most)
        self._kept.put(key, rows, _size(rows))
        return rows


def _size(rows: Rows) -> int:
    """Bytes that rows take, about; a short text takes more than its letters."""
    return _OF_ROWS + sum(map(sys.getsizeof, rows.texts))


def _read(query: Query, at: Cursor, most: int) -> Rows:
    """Rows from a cursor on, until there are enough of them, or of bytes; one more is looked for, to know the end."""
    texts: list[str] = []
    size = 0
    for table in query.rows(at.batch, skip=at.skip, limit=most + 1, most_bytes=PIECE_BYTES):
        for text in to_json_rows(table):
            if len(texts) == most or (texts and size + len(text) > PIECE_BYTES):
                return Rows(at, tuple(texts), Cursor(at.batch, at.skip + len(texts)))
            texts.append(text)
            size += len(text)
    return Rows(at, tuple(texts), Cursor(at.batch + 1))


class Ahead(NamedTuple):
    """What lies before a cursor."""

    batches: list[int]
    """Those that may hold rows of the query."""
    following: int
    """The first batch that was not looked at."""
    more: bool
    """Whether there are committed batches from there on."""


def farther(look: int) -> int:
    """How many batches are looked at next, if rows were not enough in so many: twice as many, up to a limit."""
    return min(2 * look, _LONGEST_LOOK)


def batches_with_rows(core: Core, query: Query, cursor: Cursor, look: int = LOOK_AHEAD) -> Ahead:
    """Committed batches from a cursor on that may hold rows of a query, of a long log the first `look` only: each takes
    a look at its manifest, so whoever wants few rows begins with few batches and goes `farther`.

    Raises ResultsGone if some of them are not kept any more.
    """
    with looking(core, query.id) as record:
        following = core.next_batch
        if record is None:
            return Ahead([], following, more=False)
        first = max(cursor.batch, record.created)
        last = following if record.ended is None else min(following, record.ended)
    end = min(last, first + look)
    try:
        batches = query.batches(first, end)
    except ResultsGone as gone:
        kept = kept_from(core)
        raise ResultsGone(
            f'rows of query "{query.name}" before batch {kept} are not kept any more',
            hint=f"Read on from cursor {kept}, or set engine.keep_results to more.",
        ) from gone
    return Ahead(batches, end if end < last else following, more=end < last)


def to_json_rows(table: pa.Table) -> Iterator[str]:
    """Rows as JSON lists."""
    columns = [python_values(column) for column in table.columns]
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
