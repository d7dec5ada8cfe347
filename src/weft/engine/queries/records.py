"""What is known of queries beside their being live: the records of all there were, and their bound forms."""

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
from weft.storage.ended_queries import EndedQueries, is_id, number_of

_BOUND_LATELY = 128
"""Ended queries whose bound form is kept, because somebody has just read them."""


class Records(Mapping[QueryId, QueryRecord]):
    """All queries on record: live ones, those that ended lately, and those on disk, which are read when asked for."""

    def __init__(self, live: Mapping[QueryId, LiveQuery], ended: EndedQueries) -> None:
        self._live, self._disk = live, ended
        self.lately: dict[QueryId, QueryRecord] = {}
        """Ended, and not on disk yet."""

    def __getitem__(self, query: QueryId) -> QueryRecord:
        found = self.here(query) or self.on_disk(query)
        if found is None:
            raise KeyError(query)
        return found

    def here(self, query: QueryId) -> QueryRecord | None:
        """The record of a query that is live or ended lately: those are in memory."""
        live = self._live.get(query)
        return self.lately.get(query) if live is None else live.record

    def on_disk(self, query: QueryId) -> QueryRecord | None:
        """The record of a query that ended earlier; it may have to wait for the disk."""
        return self._disk.get(query) if is_id(query) else None

    def in_memory(self, *, live: bool) -> dict[QueryId, QueryRecord]:
        """The records that are in memory: of queries that ended lately, and, if asked for, of those that are live."""
        return {**self.lately, **({query: each.record for query, each in self._live.items()} if live else {})}

    def __iter__(self) -> Iterator[QueryId]:
        return (record.id for record in self.page("", self.in_memory(live=True), after=0, limit=len(self)))

    def __len__(self) -> int:
        here = {*self._live, *self.lately}  # after a crash some may be both here and there
        return len(here) + self._disk.count_without(here)

    def page(
        self, prefix: str, here: Mapping[QueryId, QueryRecord], *, after: int, limit: int, latest: bool = False
    ) -> list[QueryRecord]:
        """Records, those of `here` and those on disk, of queries whose names begin with `prefix` and that are behind
        number `after`, in their order: the first of them, or the latest. `here` was taken from memory before: a query
        that goes to disk meanwhile is in one of the two."""
        found = {r.id: r for r in self._disk.page(prefix, after=after, limit=limit, latest=latest)} | dict(here)
        wanted = (r for r in found.values() if r.name.startswith(prefix) and number_of(r.id) > after)
        ordered = sorted(wanted, key=lambda record: number_of(record.id))
        return ordered[-limit:] if latest else ordered[:limit]

    def live_after(self, batch: int) -> list[QueryRecord]:
        """Records of queries that are live, or were after a batch."""
        found = {record.id: record for record in self._disk.since(batch)}
        found |= {query: record for query, record in self.lately.items() if (record.ended or 0) > batch}
        found |= {query: each.record for query, each in self._live.items()}
        return sorted(found.values(), key=lambda record: number_of(record.id))

    def latest(self, name: str) -> QueryRecord | None:
        """The latest query that had a name and has ended."""
        return self.latest_here(name) or self.latest_on_disk(name)

    def latest_here(self, name: str) -> QueryRecord | None:
        """The latest query that had a name and ended lately."""
        lately = (record for record in self.lately.values() if record.name == name)
        return max(lately, key=lambda record: number_of(record.id), default=None)

    def latest_on_disk(self, name: str) -> QueryRecord | None:
        """The latest query that had a name and ended earlier; it may have to wait for the disk."""
        return self._disk.latest(name)

    def failed_lately(self, prefix: str) -> int:
        """How many queries failed whose names begin with `prefix`, without those on disk."""
        return sum(bool(record.error) and record.name.startswith(prefix) for record in self.lately.values())

    def end(self, record: QueryRecord, batch: int, error: str) -> None:
        """A query has ended before `batch`."""
        self.lately[record.id] = replace(record, ended=batch, error=error)

    def end_earlier(self, failure: Failure) -> None:
        """A query that had ended could not be read: it ends before that batch."""
        record = self.get(failure.query)
        if record is not None and record.ended is not None and failure.batch < record.ended:
            self.end(record, failure.batch, failure.error)

    def settle(self, lock: AbstractContextManager[Any], kept: int | None = None) -> None:
        """Write what has ended to disk, and forget there what is of no use: of batches before `kept` no results are.

        The core's `lock` guards what is in memory, and is not held meanwhile.
        """
        with lock:
            waiting = dict(self.lately)
        if waiting:
            self._disk.put(list(waiting.values()))
            with lock:
                for query, record in waiting.items():
                    if self.lately.get(query) is record:
                        del self.lately[query]
        if kept is not None:  # also if nothing has ended since the last time: results of others may have gone since
            self._disk.forget(before=kept)

    def forget_over(self, stream: str, lock: AbstractContextManager[Any]) -> None:
        """Forget the ended queries that have read a stream for good; the core's `lock` is not held while they are
        looked for and removed on disk."""
        with lock:
            for query in [query for query, record in self.lately.items() if stream in record.streams]:
                del self.lately[query]
        self._disk.remove(self._disk.over(stream))


class BoundForms:
    """Bound forms of queries: of those that are live or wait for it, and of a few others that were read lately."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self._streams = streams
        self._lock = threading.Lock()
        """Of the forms of ended queries, which are bound by whoever asks for them, without the core's lock."""
        self._turn = 0
        """How often they were forgotten."""
        self._here: dict[QueryId, BoundQuery] = {}
        self._lately: OrderedDict[QueryId, BoundQuery] = OrderedDict()

    def __getitem__(self, query: QueryId) -> BoundQuery | None:
        return self._here.get(query) or self._lately.get(query)

    def __setitem__(self, query: QueryId, bound: BoundQuery) -> None:
        self._here[query] = bound

    def __len__(self) -> int:
        return len(self._here) + len(self._lately)

    def begin(self, record: QueryRecord) -> BoundQuery:
        """The bound form of a query that becomes live."""
        bound = self._here.get(record.id) or bind_again(record, self._streams)
        self._here[record.id] = bound
        return bound

    def read(self, record: QueryRecord) -> BoundQuery:
        """The bound form of a query that has ended."""
        turn = self._turn
        bound = bind_again(record, dict(self._streams))
        with self._lock:
            if turn == self._turn:
                self._remember(record.id, bound)
        return bound

    def end(self, query: QueryId) -> None:
        """A query is not live any more, or never will be."""
        bound = self._here.pop(query, None)
        if bound is not None:
            with self._lock:
                self._remember(query, bound)

    def forget(self) -> None:
        """Forget the forms of ended queries: what they are bound to has changed."""
        with self._lock:
            self._turn += 1
            self._lately.clear()

    def _remember(self, query: QueryId, bound: BoundQuery) -> None:
        self._lately[query] = bound
        while len(self._lately) > _BOUND_LATELY:
            self._lately.popitem(last=False)
