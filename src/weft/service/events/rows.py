"""Committed rows as JSON, in pieces that are read once for several clients."""

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
from weft.engine.catalog import Catalog
from weft.errors import InvalidRequest, ResultsGone
from weft.execution.results.recent import RecentCache
from weft.kernels.python_values import python_values

_EXACT = 2**53
"""Integers from this one on are not exact in clients that read JSON numbers as doubles."""
_LARGEST_CURSOR = 10**15
LOOK_AHEAD = 16
"""Batches that are examined together at first: the next one may have enough rows."""
_LONGEST_LOOK = 1024
"""Batches that are examined together at most, if rows are rare."""
_KEPT_BYTES = 64 << 20
"""Size of the cache of rows that were read recently."""
_OF_ROWS = 1000
"""Approximate bytes of a `Rows` without texts, including its key in the cache."""
PIECE_ROWS = 2000
"""Rows that are read and sent together at most."""
PIECE_BYTES = 4 << 20
"""Bytes of rows that are read and sent together at most. A larger row is sent alone."""


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """A place in a query's rows: after the first `skip` rows of batch `batch`."""

    batch: int
    skip: int = 0

    def skip_in(self, batch: int) -> int:
        """Return the number of rows to skip in a batch, which is this cursor's or a later one."""
        return self.skip if batch == self.batch else 0

    def __str__(self) -> str:
        return f"{self.batch}.{self.skip}" if self.skip else str(self.batch)


def parse_cursor(text: str) -> Cursor:
    """Return the cursor that a client sent; raises InvalidRequest."""
    batch, _, skip = text.partition(".")
    parts = [batch, skip or "0"]
    if not all(part.isascii() and part.isdigit() and int(part) < _LARGEST_CURSOR for part in parts):
        raise InvalidRequest(f"{text[:40]!r} is no cursor", hint="Give one that was in an answer, or leave it out.")
    return Cursor(int(batch), int(skip or 0))


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of one batch, each as a JSON text."""

    first: Cursor
    """The cursor before the first row."""
    texts: tuple[str, ...]
    behind: Cursor
    """The cursor after the last row: in the same batch, or the next batch if no rows are left."""

    def since(self, skip: int, most: int) -> Rows:
        """Return at most `most` rows, from row `skip` of the batch on."""
        begin = skip - self.first.skip
        texts = self.texts[begin : begin + most]
        ended = begin + most >= len(self.texts)
        behind = self.behind if ended else Cursor(self.first.batch, skip + len(texts))
        return Rows(Cursor(self.first.batch, skip), texts, behind)


class RowReader:
    """A reader of query rows for any number of clients. A call may take long, but delays no batch.

    A call builds at most the rows that it is asked for, and at most `PIECE_BYTES` bytes or one larger row.
    """

    def __init__(self) -> None:
        self._kept: RecentCache[Rows] = RecentCache(_KEPT_BYTES)

    def rows(self, query: Query, at: Cursor, most: int = PIECE_ROWS) -> Rows:
        """Return at most `most` rows of a committed batch from a cursor on. Raises ResultsGone if they are not kept."""
        key = (query.id, at.batch, at.skip)
        cached = self._kept.get(key)
        if cached is not None and (len(cached.texts) >= most or cached.behind.batch > at.batch):
            return cached.since(at.skip, most)
        rows = _read(query, at, most)
        self._kept.put(key, rows, _size(rows))
        return rows


def _size(rows: Rows) -> int:
    """Return the approximate memory of rows in bytes, with the overhead of each text."""
    return _OF_ROWS + sum(map(sys.getsizeof, rows.texts))


def _read(query: Query, at: Cursor, most: int) -> Rows:
    """Read at most `most` rows and `PIECE_BYTES` bytes; one more row is read to detect the end of the batch."""
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
    """The batches ahead of a cursor."""

    batches: list[int]
    """Batches that may hold rows of the query."""
    following: int
    """The first batch that was not examined."""
    more: bool
    """Whether there are committed batches from `following` on."""


def farther(look: int) -> int:
    """Return how many batches to examine next if `look` batches had too few rows: twice as many, up to a limit."""
    return min(2 * look, _LONGEST_LOOK)


def batches_with_rows(catalog: Catalog, query: Query, cursor: Cursor, look: int = LOOK_AHEAD) -> Ahead:
    """Return the committed batches that may hold rows of a query, among the first `look` batches from a cursor on.

    Each batch costs a look at its manifest, so callers that want few rows begin with few batches and go `farther`.
    Raises ResultsGone if some of the batches are not kept.
    """
    following, life = catalog.next_batch, query.committed_batches()
    first, last = max(cursor.batch, life.start), life.stop
    end = min(last, first + look)
    try:
        batches = query.batches(first, end)
    except ResultsGone as gone:
        kept = catalog.first_kept_batch
        raise ResultsGone(
            f'rows of query "{query.name}" before batch {kept} are not kept any more',
            hint=f"Read on from cursor {kept}, or set engine.keep_results to more.",
        ) from gone
    return Ahead(batches, end if end < last else following, more=end < last)


def to_json_rows(table: pa.Table) -> Iterator[str]:
    """Yield the rows of a table as JSON lists."""
    columns = [python_values(column) for column in table.columns]
    for values in zip(*columns, strict=True):
        yield json.dumps([plain(value) for value in values], ensure_ascii=False, separators=(",", ":"))


def plain(value: Any) -> Any:
    """Return a value in a form that JSON can represent."""
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
            return [plain(item) for item in value]
        case dict():
            return {str(name): plain(item) for name, item in value.items()}
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
