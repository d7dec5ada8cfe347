"""Pages of a query's rows, read piece by piece until a page is full, large or late."""

from __future__ import annotations

import time
from typing import NamedTuple

from weft.engine import Query
from weft.engine.catalog import Catalog
from weft.errors import QueryFailed
from weft.service.events.rows import LOOK_AHEAD, PIECE_ROWS, Cursor, RowReader, batches_with_rows, farther

_PATIENCE = 2.0
"""Seconds after which a page ends with the rows it has: rare rows may be many batches apart."""
_PAGE_BYTES = 16 << 20
"""Bytes after which a page ends."""


class PageRows(NamedTuple):
    """Rows of a page as JSON texts, and the cursor after them."""

    texts: list[str]
    behind: Cursor
    more: bool
    """Whether there may be more rows."""
    error: str = ""
    """Why the next row cannot be computed: the query has failed, or is about to."""


def read_page(catalog: Catalog, reader: RowReader, query: Query, after: Cursor, *, limit: int) -> PageRows:
    """Return at most `limit` rows from a cursor on; fewer if they take long or are large, or if the query fails."""
    rows, deadline, more = list[str](), time.monotonic() + _PATIENCE, True
    cursor, size, look_ahead = after, 0, LOOK_AHEAD
    while more and len(rows) < limit and size < _PAGE_BYTES:
        ahead = batches_with_rows(catalog, query, cursor, look_ahead)
        for batch in ahead.batches:
            cursor = Cursor(batch, cursor.skip_in(batch))
            while cursor.batch == batch:
                try:
                    piece = reader.rows(query, cursor, min(limit - len(rows), PIECE_ROWS))
                except QueryFailed as error:
                    return PageRows(rows, cursor, more=False, error=error.detail or error.message)
                rows += piece.texts
                cursor, size = piece.behind, size + sum(map(len, piece.texts))
                if len(rows) >= limit or size >= _PAGE_BYTES or time.monotonic() > deadline:
                    return PageRows(rows, cursor, more=ahead.more or cursor.batch <= ahead.batches[-1])
        cursor, more, look_ahead = max(cursor, Cursor(ahead.following)), ahead.more, farther(look_ahead)
        if time.monotonic() > deadline:
            break
    return PageRows(rows, cursor, more)
