"""Following a query: committed rows as server-sent events, for any number of readers at their own speed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from weft.engine import Query
from weft.engine.queries.look import bound_of
from weft.engine.results.leases import kept_from
from weft.errors import QueryFailed, ReadTimeout, ResultsGone
from weft.service.events.commit_signal import Bell
from weft.service.events.rows import LOOK_AHEAD, Ahead, Cursor, Rows, batches_with_rows, farther
from weft.service.service import Service
from weft.service.tenancy.messages import query_error
from weft.service.tenancy.quotas import throttled
from weft.service.tenancy.tenants import Tenant
from weft.service.tenancy.views import columns_of
from weft.service.workers import Workers

BEAT = 15.0
"""Seconds after which a connection on which nothing happens says so."""
_LONGEST_PAUSE = 5.0
_FIRST_PAUSE_LATE, _LONGEST_PAUSE_LATE = 5.0, 60.0
"""Seconds before rows that took too long are read again: at first, and after that has happened often."""
_ENDED = ("dropped", "failed")


def event(kind: str, data: Any, *, id_: str = "") -> str:
    """A server-sent event."""
    return raw_event(kind, json.dumps(data, ensure_ascii=False, separators=(",", ":")), id_=id_)


def raw_event(kind: str, data: str, *, id_: str = "") -> str:
    """A server-sent event whose data is JSON already."""
    return f"event: {kind}\n{f'id: {id_}' + chr(10) if id_ else ''}data: {data}\n\n"


def heartbeat(cursor: Cursor) -> str:
    """A comment, and the cursor for whoever connects again: where no rows came for long, those of the last batches that
    had some may not be kept any more, and nothing was missed all the same."""
    return f": still here\nid: {cursor}\n\n"


class Followers:
    """All who follow queries; lives in one event loop, which never waits for the engine's lock itself."""

    def __init__(self, service: Service, bell: Bell, workers: Workers) -> None:
        self._service, self._bell, self._workers = service, bell, workers
        self._reading: dict[tuple[str, Cursor], asyncio.Task[Rows]] = {}
        self.count = 0
        self.stopped = False

    async def follow(self, tenant: Tenant, query: Query, cursor: Cursor) -> AsyncIterator[str]:
        """The events of a query from a cursor on, until it ends or the service stops."""
        core, look, loop = self._service.engine.core, LOOK_AHEAD, asyncio.get_running_loop()
        self.count += 1
        try:
            # With the cursor it begins at: who began with "now" and is cut off before the first rows misses none.
            bound = await self._workers.look(bound_of, core, query.id)
            yield event("columns", columns_of(bound), id_=str(cursor))
            sent = loop.time()
            while not self.stopped:
                rung = self._bell.rung
                try:
                    state, error, ahead = await self._workers.look(self._look, query, cursor, look)
                    for batch in ahead.batches:
                        async for text in self._rows(tenant, query, Cursor(batch, cursor.skip_in(batch))):
                            yield text
                            sent = loop.time()
                        if self.stopped:
                            return
                        cursor = Cursor(batch + 1)
                except ResultsGone as gone:
                    yield event("gap", {"message": gone.message})
                    cursor = Cursor(max(cursor.batch + 1, await self._workers.look(self._oldest)))
                    continue
                except QueryFailed as failure:
                    yield event(
                        "end", {"state": "failed", "error": query_error(tenant, failure.detail or failure.message)}
                    )
                    return
                cursor = max(cursor, Cursor(ahead.following))
                look = farther(look) if ahead.more else LOOK_AHEAD
                if ahead.more:
                    continue
                if state in _ENDED:
                    yield event("end", {"state": state, "error": query_error(tenant, error)})
                    return
                # Batches without rows of this query ring the bell, too: what counts is when something was sent last.
                due = sent + BEAT - loop.time()
                if due <= 0 or not await self._bell.wait(rung, due):
                    yield heartbeat(cursor)
                    sent = loop.time()
        finally:
            self.count -= 1

    async def _rows(self, tenant: Tenant, query: Query, at: Cursor) -> AsyncIterator[str]:
        batch, said, pause = at.batch, False, _FIRST_PAUSE_LATE
        while at.batch == batch and not self.stopped:
            try:
                rows = await self._read(tenant, query, at)
            except ReadTimeout as late:  # the query goes on; other readers have their turn before the next try
                yield event("throttled", {"message": late.message})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_LATE)
                continue
            at = rows.behind
            if not rows.texts:
                continue
            while (wait := self._service.quotas.wait_for_rows(tenant)) > 0:
                if not said:
                    yield event("throttled", {"message": throttled(tenant)})
                said = True
                await asyncio.sleep(min(wait, _LONGEST_PAUSE))
            self._service.quotas.give_rows(tenant, len(rows.texts))
            yield raw_event("rows", rows_text(batch, rows.texts), id_=str(at))
            await asyncio.sleep(0)  # a reader that has left is noticed before more is sent to nobody

    async def _read(self, tenant: Tenant, query: Query, at: Cursor) -> Rows:
        """One reader for all who wait for the same rows."""
        key = (query.id, at)
        task = self._reading.get(key)
        if task is None:
            task = asyncio.create_task(self._workers.read(tenant, self._service.reader.rows, query, at))
            self._reading[key] = task
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        # A reader that leaves must not take the others' rows along.
        return await asyncio.shield(task)

    def _look(self, query: Query, cursor: Cursor, look: int) -> tuple[str, str, Ahead]:
        """How a query is, and what lies ahead. In this order: if it has ended, there will be no more than that. The
        record of one that has ended may have to be read from disk."""
        state, error = query.state, query.error
        return state, error, batches_with_rows(self._service.engine.core, query, cursor, look)

    def _oldest(self) -> int:
        return kept_from(self._service.engine.core)


def rows_text(batch: int, texts: Sequence[str]) -> str:
    """The data of an event with rows."""
    return f'{{"batch":{batch},"rows":[{",".join(texts)}]}}'
