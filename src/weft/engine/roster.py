"""Who is live: queries, their names and slots, and the requests that wait for a boundary."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from weft.errors import DuplicateQuery, UnknownQuery
from weft.optimize.weave import choose_route, routes_of
from weft.plan.changelog import (
    NO_SLOTS,
    Change,
    Failure,
    LiveQuery,
    QueryId,
    QueryRecord,
    Slots,
    free_slots,
    slots_of,
)
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.sql import bind
from weft.state.journal import record_from_json, record_to_json

TICK = 1
"""The least distance of event times, in microseconds."""


@dataclass(slots=True)
class Request:
    """Queries to create and drop together; `done` is set when they are in effect."""

    created: tuple[tuple[QueryId, str, BoundQuery], ...]
    dropped: tuple[QueryId, ...]
    asked: float
    done: threading.Event
    failed: tuple[Failure, ...] = ()


class Roster:
    """All queries there are and were; changed only by folding in changes, so that it can be had again from them."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams
        self.records: dict[QueryId, QueryRecord] = {}
        self.bound: dict[QueryId, BoundQuery] = {}
        self.live: dict[QueryId, LiveQuery] = {}
        self.names: dict[str, QueryId] = {}
        self.pending: list[Request] = []
        self.latencies: dict[QueryId, float] = {}
        """Seconds from the request to its effect, for queries created since the start."""
        self._next_id = 0

    # ---- what is there

    @property
    def slots(self) -> Slots:
        """Slots of the live queries."""
        return slots_of(live.slot for live in self.live.values())

    def bound_query(self, query: QueryId) -> BoundQuery:
        """The bound form of a query, live or ended."""
        if query not in self.bound:
            self.bound[query] = bind(self.records[query].sql, self._streams)
        return self.bound[query]

    def is_pending(self, query: QueryId) -> bool:
        """Whether a query waits for its first boundary."""
        dropped = any(query in request.dropped for request in self.pending)
        return not dropped and any(query == created for r in self.pending for created, _, _ in r.created)

    def name_of(self, query: QueryId) -> str:
        """The name of a query, live, ended or pending."""
        if query in self.records:
            return self.records[query].name
        return next(name for request in self.pending for created, name, _ in request.created if created == query)

    def find(self, name: str) -> QueryId | None:
        """The query of this name: the live or pending one, else the latest that had it."""
        if name in self.names:
            return self.names[name]
        return next((r.id for r in reversed(list(self.records.values())) if r.name == name), None)

    # ---- requests

    def request(self, create: Sequence[tuple[str | None, BoundQuery]], drop: Sequence[QueryId]) -> Request:
        """Take a request up, all or nothing; it waits for the boundary. What is on its way out may be dropped again."""
        asked = time.monotonic()
        leaving = {query for request in self.pending for query in request.dropped}
        drop = [query for query in dict.fromkeys(drop) if query not in leaving]
        for query in drop:
            if query not in self.live and not self.is_pending(query):
                raise UnknownQuery(f'query "{query}" is not live', hint="It was dropped or has failed before.")
        names = [name for name, _ in create if name is not None]
        self._check_names(names, drop)
        for query in drop:
            del self.names[self.name_of(query)]
        created = []
        for name, bound in create:
            query = self._new_id({*names} - {name})
            self.names[name or query] = query
            self.bound[query] = bound
            created.append((query, name or query, bound))
        request = Request(tuple(created), tuple(drop), asked, threading.Event())
        self.pending.append(request)
        return request

    def request_end(self, failure: Failure) -> Request | None:
        """Ask for the end of a query that failed when it was read; None if it has ended, or is about to."""
        if failure.query not in self.live or self.names.get(self.name_of(failure.query)) != failure.query:
            return None
        request = self.request([], [failure.query])
        request.failed = (failure,)
        return request

    def cancel(self, request: Request) -> None:
        """Undo a request that could not be made durable: it was never acknowledged."""
        self.pending.remove(request)
        for query, name, _ in request.created:
            del self.names[name], self.bound[query]
        for query in request.dropped:
            self.names[self.name_of(query)] = query

    def _check_names(self, names: Sequence[str], leaving: Sequence[QueryId]) -> None:
        for name in names:
            if names.count(name) > 1 or (name in self.names and self.names[name] not in leaving):
                raise DuplicateQuery(f'query "{name}" exists already', hint="Drop it first, or choose another name.")

    def _new_id(self, others: Set[str | None]) -> QueryId:
        """An id that is no other query's name: queries without a name are called by it."""
        self._next_id += 1
        while f"q{self._next_id}" in self.names or f"q{self._next_id}" in others:
            self._next_id += 1
        return QueryId(f"q{self._next_id}")

    def change(self, batch: int, newest: Mapping[str, int]) -> Change:
        """All waiting requests as one change from `batch` on, `newest` being the largest event time seen, by stream;
        slots of dropped queries are reused at once."""
        asked = [created for request in self.pending for created in request.created]
        dropped = {query for request in self.pending for query in request.dropped}
        staying = [live for query, live in self.live.items() if query not in dropped]
        asked = [created for created in asked if created[0] not in dropped]
        slots = free_slots(slots_of(live.slot for live in staying), len(asked))
        routes = routes_of(staying)
        records: list[QueryRecord] = []
        for (query, name, bound), slot in zip(asked, slots, strict=True):
            record = QueryRecord(
                id=query,
                name=name,
                sql=bound.sql,
                slot=slot,
                created=batch,
                start=_start_of(bound, newest),
                route=choose_route(bound, routes),
            )
            routes |= routes_of([LiveQuery(record, bound)])
            records.append(record)
        leaving = tuple(query for query in self.live if query in dropped)
        failed = tuple(failure for request in self.pending for failure in request.failed)
        return Change(batch, tuple(records), leaving, failed)

    def acknowledge(self) -> None:
        """The waiting requests are in effect."""
        requests, self.pending = self.pending, []
        now = time.monotonic()
        for request in requests:
            self.latencies |= {query: now - request.asked for query, _, _ in request.created}
            request.done.set()

    # ---- folding

    def fold(self, change: Change) -> Slots:
        """Put a change into effect; returns the slots that changed their meaning."""
        changed = NO_SLOTS
        failed = {failure.query: failure for failure in change.failed}
        for query in change.dropped:
            failure = failed.get(query, Failure(query, change.batch, ""))
            changed = Slots(changed | self.end(query, failure.batch, failure.error))
        for record in change.created:
            self.records[record.id] = record
            self.names[record.name] = record.id
            self.live[record.id] = LiveQuery(record, self.bound_query(record.id))
            self._next_id = max(self._next_id, int(record.id[1:]))
            changed = Slots(changed | 1 << record.slot)
        return changed

    def end(self, query: QueryId, batch: int, error: str) -> Slots:
        """End a query before `batch`; returns its slot as a set, empty if it was not live."""
        live = self.live.pop(query, None)
        if live is None:
            return NO_SLOTS
        self.records[query] = replace(live.record, ended=batch, error=error)
        if self.names.get(live.record.name) == query:
            del self.names[live.record.name]
        return Slots(1 << live.slot)

    def to_json(self) -> dict[str, Any]:
        """As in a checkpoint."""
        return {"next_id": self._next_id, "records": [record_to_json(record) for record in self.records.values()]}

    def load(self, value: dict[str, Any]) -> None:
        """The inverse of `to_json`."""
        self._next_id = value["next_id"]
        for record in map(record_from_json, value["records"]):
            self.records[record.id] = record
            if record.ended is None:
                self.names[record.name] = record.id
                self.live[record.id] = LiveQuery(record, self.bound_query(record.id))


def _start_of(query: BoundQuery, newest: Mapping[str, int]) -> int | None:
    """From when on its result is complete: just after everything its streams have seen; None if they have nothing."""
    seen = [newest[relation.stream] for relation in query.relations if relation.stream in newest]
    return max(seen) + TICK if seen else None
