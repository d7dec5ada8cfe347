"""A page of a query's rows: read piece by piece until it is full, large or late."""

from __future__ import annotations

import time
from typing import NamedTuple

from weft.engine import Query
from weft.engine.core import Core
from weft.errors import QueryFailed
from weft.service.events.rows import LOOK_AHEAD, PIECE_ROWS, Cursor, RowReader, batches_with_rows, farther

_PATIENCE = 2.0
"""Seconds after which a page ends, with the rows it has: rare ones may be many batches apart."""
_PAGE_BYTES = 16 << 20
"""Bytes after which a page ends."""


class PageRows(NamedTuple):
    """Rows of a page as JSON texts, and where to read on."""

    texts: list[str]
    behind: Cursor
    more: bool
    """Whether there may be more."""
    error: str = ""
    """Why the row that comes next cannot be computed: the query has failed, or is about to."""


def read_page(core: Core, reader: RowReader, query: Query, after: Cursor, *, limit: int) -> PageRows:
    """At most `limit` rows from a cursor on; fewer where they take long, are large, or where the query fails."""
    rows, deadline, more = list[str](), time.monotonic() + _PATIENCE, True
    cursor, size, look = after, 0, LOOK_AHEAD
    while more and len(rows) < limit and size < _PAGE_BYTES:
        ahead = batches_with_rows(core, query, cursor, look)
        for batch in ahead.batches:
            cursor = Cursor(batch, cursor.skip_in(batch))
            while cursor.batch == batch:
                try:
                    found = reader.rows(query, cursor, min(limit - len(rows), PIECE_ROWS))
                except QueryFailed as error:
                    return PageRows(rows, cursor, more=False, error=error.detail or error.message)
                rows += found.texts
                cursor, size = found.behind, size + sum(map(len, found.texts))
                if len(rows) >= limit or size >= _PAGE_BYTES or time.monotonic() > deadline:
                    return PageRows(rows, cursor, more=ahead.more or cursor.batch <= ahead.batches[-1])
        cursor, more, look = max(cursor, Cursor(ahead.following)), ahead.more, farther(look)
        if time.monotonic() > deadline:
            break
    return PageRows(rows, cursor, more)
