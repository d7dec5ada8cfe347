"""Records of all queries, live and ended, and their bound forms."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from weft.engine.queries.identity import bind_again
from weft.plan.changelog import Failure, LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.storage.ended_queries import EndedQueries, is_id, query_number

_BOUND_LATELY = 128
"""The number of ended queries whose bound form is kept because it was used recently."""


class Records(Mapping[QueryId, QueryRecord]):
    """All queries on record: live ones, recently ended ones, and those on disk, which are read on demand."""

    def __init__(self, live: Mapping[QueryId, LiveQuery], ended: EndedQueries) -> None:
        self._live, self._disk = live, ended
        self.lately: dict[QueryId, QueryRecord] = {}
        """Ended queries that are not on disk yet."""

    def __getitem__(self, query: QueryId) -> QueryRecord:
        record = self.here(query) or self.on_disk(query)
        if record is None:
            raise KeyError(query)
        return record

    def here(self, query: QueryId) -> QueryRecord | None:
        """Return the record of a live or recently ended query, which is in memory."""
        live = self._live.get(query)
        return self.lately.get(query) if live is None else live.record

    def on_disk(self, query: QueryId) -> QueryRecord | None:
        """Return the record of a query that ended earlier; the call may wait for the disk."""
        return self._disk.get(query) if is_id(query) else None

    def in_memory(self, *, live: bool) -> dict[QueryId, QueryRecord]:
        """Return the records in memory: of recently ended queries and, if `live`, of live ones."""
        return {**self.lately, **({query: entry.record for query, entry in self._live.items()} if live else {})}

    def __iter__(self) -> Iterator[QueryId]:
        return (record.id for record in self.page("", self.in_memory(live=True), after=0, limit=len(self)))

    def __len__(self) -> int:
        in_memory = {*self._live, *self.lately}  # after a crash a query may be both in memory and on disk
        return len(in_memory) + self._disk.count_without(in_memory)

    def page(
        self, prefix: str, here: Mapping[QueryId, QueryRecord], *, after: int, limit: int, latest: bool = False
    ) -> list[QueryRecord]:
        """Return the first (or `latest`) records with a name `prefix` and a number above `after`, in order.

        `here` was taken from memory before the call: a query that goes to disk meanwhile is in one of the two.
        """
        records = {r.id: r for r in self._disk.page(prefix, after=after, limit=limit, latest=latest)} | dict(here)
        wanted = (r for r in records.values() if r.name.startswith(prefix) and query_number(r.id) > after)
        ordered = sorted(wanted, key=lambda record: query_number(record.id))
        return ordered[-limit:] if latest else ordered[:limit]

    def latest(self, name: str) -> QueryRecord | None:
        """Return the latest ended query that had a name."""
        return self.latest_here(name) or self.latest_on_disk(name)

    def latest_here(self, name: str) -> QueryRecord | None:
        """Return the latest query that had a name and ended recently."""
        lately = (record for record in self.lately.values() if record.name == name)
        return max(lately, key=lambda record: query_number(record.id), default=None)

    def latest_on_disk(self, name: str) -> QueryRecord | None:
        """Return the latest query that had a name and ended earlier; the call may wait for the disk."""
        return self._disk.latest(name)

    def failed_lately(self, prefix: str) -> int:
        """Return how many queries with names that begin with `prefix` have failed, without those on disk."""
        return sum(bool(record.error) and record.name.startswith(prefix) for record in self.lately.values())

    def end(self, record: QueryRecord, batch: int, error: str) -> None:
        """Note that a query has ended before `batch`."""
        self.lately[record.id] = replace(record, ended=batch, error=error)

    def end_earlier(self, failure: Failure) -> None:
        """Let an ended query end earlier, before the batch that could not be read."""
        record = self.get(failure.query)
        if record is not None and record.ended is not None and failure.batch < record.ended:
            self.end(record, failure.batch, failure.error)

    def settle(self, lock: AbstractContextManager[Any], kept: int | None = None) -> None:
        """Write ended queries to disk, and forget those on disk that ended before `kept`: their results are gone.

        The core's `lock` guards the records in memory and is not held while the disk is written.
        """
        with lock:
            waiting = dict(self.lately)
        if waiting:
            self._disk.put(list(waiting.values()))
            with lock:
                for query, record in waiting.items():
                    if self.lately.get(query) is record:
                        del self.lately[query]
        if kept is not None:  # even if nothing has ended since: results of others may be removed
            self._disk.forget(before=kept)

    def forget_over(self, stream: str, lock: AbstractContextManager[Any]) -> None:
        """Forget the ended queries over a stream for good; the core's `lock` is not held while the disk is searched."""
        with lock:
            for query in [query for query, record in self.lately.items() if stream in record.streams]:
                del self.lately[query]
        self._disk.remove(self._disk.over(stream))


class BoundForms:
    """Bound forms of live and pending queries, and of a few ended ones that were read recently."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams
        self._lock = threading.Lock()
        """Guards the forms of ended queries, which readers bind without the core's lock."""
        self._turn = 0
        """How often the forms of ended queries were forgotten."""
        self._here: dict[QueryId, BoundQuery] = {}
        self._lately: OrderedDict[QueryId, BoundQuery] = OrderedDict()

    def __getitem__(self, query: QueryId) -> BoundQuery | None:
        return self._here.get(query) or self._lately.get(query)

    def __setitem__(self, query: QueryId, bound: BoundQuery) -> None:
        self._here[query] = bound

    def __len__(self) -> int:
        return len(self._here) + len(self._lately)

    def begin(self, record: QueryRecord) -> BoundQuery:
        """Return the bound form of a query that becomes live."""
        bound = self._here.get(record.id) or bind_again(record, self._streams)
        self._here[record.id] = bound
        return bound

    def read(self, record: QueryRecord) -> BoundQuery:
        """Return the bound form of an ended query."""
        turn = self._turn
        bound = bind_again(record, dict(self._streams))
        with self._lock:
            if turn == self._turn:
                self._remember(record.id, bound)
        return bound

    def end(self, query: QueryId) -> None:
        """Note that a query is no longer live or pending."""
        bound = self._here.pop(query, None)
        if bound is not None:
            with self._lock:
                self._remember(query, bound)

    def forget(self) -> None:
        """Forget the forms of ended queries, because the streams they are bound to have changed."""
        with self._lock:
            self._turn += 1
            self._lately.clear()

    def _remember(self, query: QueryId, bound: BoundQuery) -> None:
        self._lately[query] = bound
        while len(self._lately) > _BOUND_LATELY:
            self._lately.popitem(last=False)
