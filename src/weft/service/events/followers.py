"""Following a query: committed rows as server-sent events, for any number of readers at their own speed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from weft.engine import Query
from weft.errors import QueryFailed, ReadTimeout, ResultsGone
from weft.service.events.commit_signal import CommitSignal
from weft.service.events.rows import LOOK_AHEAD, Ahead, Cursor, Rows, batches_with_rows, farther
from weft.service.service import Service
from weft.service.tenancy.messages import query_error
from weft.service.tenancy.quotas import throttled
from weft.service.tenancy.tenants import Tenant
from weft.service.tenancy.views import result_columns
from weft.service.workers import Workers

BEAT = 15.0
"""Seconds without an event after which a heartbeat is sent."""
_LONGEST_PAUSE = 5.0
_FIRST_PAUSE_LATE, _LONGEST_PAUSE_LATE = 5.0, 60.0
"""Seconds before rows are read again after a timeout: the first time, and at most."""
_ENDED = ("dropped", "failed")


def event(kind: str, data: Any, *, id_: str = "") -> str:
    """Return a server-sent event with `data` as JSON."""
    return raw_event(kind, json.dumps(data, ensure_ascii=False, separators=(",", ":")), id_=id_)


def raw_event(kind: str, data: str, *, id_: str = "") -> str:
    """Return a server-sent event whose data is JSON already."""
    return f"event: {kind}\n{f'id: {id_}' + chr(10) if id_ else ''}data: {data}\n\n"


def heartbeat(cursor: Cursor) -> str:
    """Return a comment with the current cursor, for a client that reconnects.

    The cursor of the last rows may be too old by then: its batches may not be kept, although the client missed nothing.
    """
    return f": still here\nid: {cursor}\n\n"


class Followers:
    """All connections that follow queries, of one event loop. The loop itself never waits for the engine's lock."""

    def __init__(self, service: Service, bell: CommitSignal, workers: Workers) -> None:
        self._service, self._bell, self._workers = service, bell, workers
        self._reading: dict[tuple[str, Cursor], asyncio.Task[Rows]] = {}
        self.count = 0
        self.stopped = False

    async def follow(self, tenant: Tenant, query: Query, cursor: Cursor) -> AsyncIterator[str]:
        """Yield the events of a query from a cursor on, until the query ends or the service stops."""
        look_ahead, loop = LOOK_AHEAD, asyncio.get_running_loop()
        self.count += 1
        try:
            # With the first cursor: a client that began with "now" and reconnects before the first rows misses none.
            bound = await self._workers.look(lambda: query.bound)
            yield event("columns", result_columns(bound), id_=str(cursor))
            sent = loop.time()
            while not self.stopped:
                rung = self._bell.rung
                try:
                    state, error, ahead = await self._workers.look(self._look, query, cursor, look_ahead)
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
                look_ahead = farther(look_ahead) if ahead.more else LOOK_AHEAD
                if ahead.more:
                    continue
                if state in _ENDED:
                    yield event("end", {"state": state, "error": query_error(tenant, error)})
                    return
                # Batches without rows of this query also wake this loop, so the time of the last event counts.
                due = sent + BEAT - loop.time()
                if due <= 0 or not await self._bell.wait(rung, due):
                    yield heartbeat(cursor)
                    sent = loop.time()
        finally:
            self.count -= 1

    async def _rows(self, tenant: Tenant, query: Query, at: Cursor) -> AsyncIterator[str]:
        batch, announced, pause = at.batch, False, _FIRST_PAUSE_LATE
        while at.batch == batch and not self.stopped:
            try:
                rows = await self._read(tenant, query, at)
            except ReadTimeout as timeout:  # no failure of the query: let other readers go first
                yield event("throttled", {"message": timeout.message})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_LATE)
                continue
            at = rows.behind
            if not rows.texts:
                continue
            while (wait := self._service.quotas.wait_for_rows(tenant)) > 0:
                if not announced:
                    yield event("throttled", {"message": throttled(tenant)})
                announced = True
                await asyncio.sleep(min(wait, _LONGEST_PAUSE))
            self._service.quotas.give_rows(tenant, len(rows.texts))
            yield raw_event("rows", rows_text(batch, rows.texts), id_=str(at))
            await asyncio.sleep(0)  # lets the loop notice that the client has disconnected

    async def _read(self, tenant: Tenant, query: Query, at: Cursor) -> Rows:
        """Read rows, once for all connections that wait for the same rows."""
        key = (query.id, at)
        task = self._reading.get(key)
        if task is None:
            task = asyncio.create_task(self._workers.read(tenant, self._service.reader.rows, query, at))
            self._reading[key] = task
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        # A client that disconnects must not cancel the read for the others.
        return await asyncio.shield(task)

    def _look(self, query: Query, cursor: Cursor, look_ahead: int) -> tuple[str, str, Ahead]:
        """Return the state and error of a query, and the batches ahead of a cursor; may read the record from disk.

        The state is read first: if the query has ended by then, the batches found afterwards are its last ones.
        """
        state, error = query.state, query.error
        return state, error, batches_with_rows(self._service.catalog, query, cursor, look_ahead)

    def _oldest(self) -> int:
        return self._service.catalog.first_kept_batch


def rows_text(batch: int, texts: Sequence[str]) -> str:
    """Return the data of a `rows` event."""
    return f'{{"batch":{batch},"rows":[{",".join(texts)}]}}'
