"""Queries by name and id, and the requests to create and drop queries that wait for a boundary."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from weft.engine.inputs.set_watermark import check_set_back, newest_after
from weft.engine.queries.identity import identified
from weft.engine.queries.records import BoundForms, Records
from weft.errors import DuplicateQuery, UnknownQuery
from weft.plan.changelog import Change, Failure, LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.slots import Slots, free_slots, slot_set
from weft.plan.stream import Stream
from weft.planner.strategy import choose_route, live_query, routes_of
from weft.storage.ended_queries import EndedQueries

TICK = 1
"""The smallest distance of event times, in microseconds."""
_LATENCIES = 1000


@dataclass(slots=True)
class Request:
    """Queries to create and drop together, or a watermark to set back; `done` is set when the request is in effect."""

    created: tuple[tuple[QueryId, str, BoundQuery], ...]
    dropped: tuple[QueryId, ...]
    asked: float
    done: threading.Event
    failed: tuple[Failure, ...] = ()
    ready: bool = True
    """Whether the request is prepared and may take effect."""
    watermarks: tuple[tuple[str, int], ...] = ()
    """Streams whose watermark to set back, and the event time to set it to."""
    sinks: set[QueryId] = field(default_factory=set)
    """The created queries that have a sink."""


class Requests:
    """Queries that are live, ended or requested."""

    def __init__(self, streams: Mapping[str, Stream], ended: EndedQueries) -> None:
        self._streams = streams
        self.ended = ended
        self.live: dict[QueryId, LiveQuery] = {}
        self.refused: dict[QueryId, tuple[QueryRecord, str]] = {}
        """Queries that were live but that this release refuses, and why; they end when recovery is complete."""
        self.records = Records(self.live, ended)
        self.bound = BoundForms(streams)
        self.names: dict[str, QueryId] = {}
        self.pending: list[Request] = []
        self.sinks: set[QueryId] = set()
        """Queries with a sink that has not received everything; each has a file with its progress."""
        self.latencies: dict[QueryId, float] = {}
        """Seconds from request to effect of the last thousand queries that were created since the start."""
        self._next_id = 0

    # ---- queries

    @property
    def slots(self) -> Slots:
        """The slots of the live queries."""
        return slot_set(live.slot for live in self.live.values())

    def bound_query(self, query: QueryId) -> BoundQuery:
        """Return the bound form of a query, live or ended; raise UnknownQuery if it is not on record."""
        return self.bound[query] or self.bound.read(self.record(query))

    def record(self, query: QueryId) -> QueryRecord:
        """Return the record of a query, or raise UnknownQuery."""
        record = self.records.get(query)
        if record is None:
            raise _unknown(query)
        return record

    def is_pending(self, query: QueryId) -> bool:
        """Return whether a query waits for its first boundary."""
        dropped = any(query in request.dropped for request in self.pending)
        return not dropped and any(query == created for r in self.pending for created, _, _ in r.created)

    def name_of(self, query: QueryId) -> str:
        """Return the name of a live, ended or pending query, or raise UnknownQuery."""
        waiting = (name for request in self.pending for created, name, _ in request.created if created == query)
        pending_name = next(waiting, None)
        return self.record(query).name if pending_name is None else pending_name

    def find(self, name: str) -> QueryId | None:
        """Return the live or pending query with a name, else the latest that had it."""
        query = self.find_here(name)
        record = self.records.latest_on_disk(name) if query is None else None
        return query if record is None else record.id

    def find_here(self, name: str) -> QueryId | None:
        """Return the same as `find`, without queries that are only on disk.

        A query whose drop waits for the boundary has given up its name and is the latest that had it.
        """
        if name in self.names:
            return self.names[name]
        leaving = (query for request in self.pending for query in request.dropped if query in self.live)
        for query in leaving:
            if self.live[query].record.name == name:
                return query
        record = self.records.latest_here(name)
        return None if record is None else record.id

    def readers_of(self, stream: str) -> dict[QueryId, str]:
        """Return the live and pending queries that read a stream, with their names.

        A query whose drop waits for the boundary is among them; its name may belong to another query by now.
        """
        readers = {query: live.record.name for query, live in self.live.items() if reads(live.query, stream)}
        waiting = (created for request in self.pending for created in request.created)
        return readers | {query: name for query, name, bound in waiting if reads(bound, stream)}

    # ---- requests

    def request(
        self, create: Sequence[tuple[str | None, BoundQuery]], drop: Sequence[QueryId], *, ready: bool = True
    ) -> Request:
        """Accept a request, all or nothing; it waits for the boundary. A query that is leaving may be dropped again."""
        requested_at = time.monotonic()
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
        request = Request(tuple(created), tuple(drop), requested_at, threading.Event(), ready=ready)
        self.pending.append(request)
        return request

    def request_end(self, failure: Failure) -> Request | None:
        """Request the end of a query that failed when it was read; an ended query then ends before that batch instead.

        Return None if the query is about to end, or has ended before that batch already.
        """
        record = self.records.get(failure.query)
        if record is None or (record.ended is not None and record.ended <= failure.batch):
            return None
        if record.ended is None and self.names.get(record.name) != failure.query:
            return None
        request = self.request([], [failure.query] if record.ended is None else [])
        request.failed = (failure,)
        return request

    def request_set_back(self, stream: str, time: int, watermarks: Mapping[str, int]) -> Request:
        """Request that a stream's watermark be set back to a time; raise if that is not possible."""
        check_set_back(stream, time, self._streams, watermarks)
        request = self.request([], [])
        request.watermarks = ((stream, time),)
        return request

    def cancel(self, request: Request) -> None:
        """Undo a request that could not be made durable and so was never acknowledged."""
        self.pending.remove(request)
        for query, name, _ in request.created:
            del self.names[name]
            self.bound.end(query)
        for query in request.dropped:
            self.names[self.name_of(query)] = query

    def _check_names(self, names: Sequence[str], leaving: Sequence[QueryId]) -> None:
        for name in names:
            if names.count(name) > 1 or (name in self.names and self.names[name] not in leaving):
                raise DuplicateQuery(f'query "{name}" exists already', hint="Drop it first, or choose another name.")

    def _new_id(self, others: Set[str | None]) -> QueryId:
        """Return an id that is no other query's name, because a query without a name is called by its id."""
        self._next_id += 1
        while f"q{self._next_id}" in self.names or f"q{self._next_id}" in others:
            self._next_id += 1
        return QueryId(f"q{self._next_id}")

    def ready(self) -> tuple[Request, ...]:
        """Return the pending requests that may take effect, in order of arrival."""
        return tuple(request for request in self.pending if request.ready)

    def change(self, batch: int, newest: Mapping[str, int]) -> Change:
        """Return all ready requests as one change from `batch` on; slots of dropped queries are reused at once.

        `newest` has the largest event time seen, by stream.
        """
        ready = self.ready()
        set_back = Change(batch, (), (), watermarks=tuple(mark for request in ready for mark in request.watermarks))
        newest = {**newest, **newest_after(set_back, self._streams)}
        return replace(_change(ready, self.live, batch, newest), watermarks=set_back.watermarks)

    def acknowledge(self, requests: Sequence[Request]) -> None:
        """Mark requests as being in effect."""
        self.pending = [request for request in self.pending if request not in requests]
        now = time.monotonic()
        for request in requests:
            created = [query for query, _, _ in request.created]
            self.latencies |= {query: now - request.asked for query in created if query in self.live}
            for query in set(created) - set(self.live):  # dropped before it became live
                self.bound.end(query)
            request.done.set()
        for query in list(self.latencies)[: max(0, len(self.latencies) - max(_LATENCIES, len(self.live)))]:
            del self.latencies[query]


def reads(query: BoundQuery, stream: str) -> bool:
    """Return whether a query reads a stream."""
    return any(relation.stream == stream for relation in query.relations)


def _unknown(query: QueryId) -> UnknownQuery:
    return UnknownQuery(
        f'query "{query}" does not exist',
        hint="Of queries that ended long ago, neither results nor records are kept.",
    )


def start_of(query: BoundQuery, newest: Mapping[str, int]) -> int | None:
    """Return the first event time with complete results: just after all that the streams have seen; None if nothing."""
    seen = [newest[relation.stream] for relation in query.relations if relation.stream in newest]
    return max(seen) + TICK if seen else None


def _change(
    pending: Sequence[Request], live: Mapping[QueryId, LiveQuery], batch: int, newest: Mapping[str, int]
) -> Change:
    requested = [created for request in pending for created in request.created]
    dropped = {query for request in pending for query in request.dropped}
    staying = [entry for query, entry in live.items() if query not in dropped]
    requested = [created for created in requested if created[0] not in dropped]
    slots = free_slots(slot_set(entry.slot for entry in staying), len(requested))
    routes = routes_of(staying)
    records: list[QueryRecord] = []
    for (query, name, bound), slot in zip(requested, slots, strict=True):
        record = QueryRecord(
            id=query,
            name=name,
            sql=bound.sql,
            slot=slot,
            created=batch,
            start=start_of(bound, newest),
            route=choose_route(bound, routes),
            streams=tuple(dict.fromkeys(relation.stream for relation in bound.relations)),
        )
        record = identified(record, bound)
        routes |= routes_of([live_query(record, bound)])
        records.append(record)
    leaving = tuple(query for query in live if query in dropped)
    failed = tuple(failure for request in pending for failure in request.failed)
    sinks = tuple(record.id for record in records if any(record.id in request.sinks for request in pending))
    return Change(batch, tuple(records), leaving, failed, sinks=sinks)
