"""All sinks of an engine, behind the batches: a thread for each, so that a slow or broken one is alone with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.engine.results.leases import kept_from
from weft.engine.sinks.delivery import Delivery
from weft.engine.sinks.notes import (
    check_noted,
    claim_for,
    finish_note,
    forget,
    give_back,
    new_note,
    noted,
    read_note,
)
from weft.engine.sinks.sinks import ParquetSink, Sink
from weft.engine.sinks.states import SinkStates
from weft.errors import InvalidSetting, ResultsGone
from weft.plan.changelog import QueryId

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog
    from weft.engine.query import Query

PATIENCE = 30.0
"""Seconds that sinks have to take the last rows when the engine stops."""


class Deliveries(SinkStates):
    """All sinks of an engine; remembers how far each has got."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._attaching = threading.Lock()
        """Held while a delivery is waited for, which may need the core's lock: never to be taken under that."""

    # ---- sinks come and go

    def begin(self, query: Query, sink: Sink) -> None:
        """Attach a sink to a query that is not in effect yet; `withdraw` undoes it."""
        core = self._catalog.core
        delivery = Delivery(core, query, sink, note=new_note(core, query.id, sink))
        delivery.save()  # before the directory is claimed: after a crash the directory can be given back
        delivery.claim()
        self._begin(delivery)

    def withdraw(self, queries: Sequence[QueryId]) -> None:
        """Remove the sinks of queries that do not come into effect."""
        self._stop(queries)
        for query in queries:
            forget(self._catalog.core.directory, query)

    def attach(self, query: Query, sink: Sink, *, skip_missing: bool = False) -> None:
        """Deliver to a sink from where this query's deliveries stopped last.

        Raises ResultsGone if what comes next is not kept any more, unless that is to be skipped, which is noted.
        """
        core = self._catalog.core
        with self._attaching:
            claim_for(core, query.id, sink)
            note = self._note(query.id) or new_note(core, query.id, sink)
            if (note.failed or self._is_missing(note)) and not skip_missing:
                raise ResultsGone(
                    f'rows of query "{query.name}" from batch {note.delivered} on are not kept any more',
                    detail=note.failed,
                    hint="deliver_to(sink, skip_missing=True) goes on with those that are, and notes the gap.",
                )
            self._stop([query.id])
            self._detached.pop(query.id, None)
            note = read_note(core.directory, query.id) or note
            note.parquet = sink.path if isinstance(sink, ParquetSink) else None
            if skip_missing:
                created, following = self._next(note)
                note.skip_to(following, created=created)
            delivery = Delivery(self._catalog.core, query, sink, note=note)
            delivery.save()
            core.note_sink(query.id)
            self._begin(delivery)

    def resume(self, query: Query) -> None:
        """Let a sink that has failed go on with what is kept; the gap is noted. Harmless if it has not failed."""
        with self._attaching:
            note = self._note(query.id)
            if note is None:
                raise InvalidSetting(f'query "{query.name}" has no sink', hint="There is nothing to resume.")
            if note.failed:
                created, following = self._next(note)
                running = self._running.get(query.id)
                if running is not None:
                    running.resume(following, created=created)
                    return
                note.skip_to(following, created=created)
                note.save(self._catalog.core.directory)
                if query.id in self._detached:
                    self._detached[query.id] = note

    def restore(self) -> None:
        """Attach again what needs nothing from the user's program, and remember the others."""
        self.remember()
        for query, note in list(self._detached.items()):
            if note.parquet is not None:
                del self._detached[query]
                # If its directory cannot be had now, that is this delivery's error and nobody else's.
                handle = self._catalog.query_by_id(query)
                self._begin(Delivery(self._catalog.core, handle, ParquetSink(note.parquet), note=note))
        self.let_go()

    def remember(self) -> None:
        """Know the sinks there are, as after a start; what a crash left of others is tidied up. Raises StateCorrupt if
        the file of one is missing."""
        core = self._catalog.core
        check_noted(core)
        give_back(core)
        for query in noted(core.directory):
            note, record = read_note(core.directory, query), core.roster.records.get(query)
            if note is None or record is None:
                continue
            if record.ended is not None and note.delivered >= record.ended:
                finish_note(core, record)
            else:
                core.note_sink(query)  # unless it is known: a crash may have come between its file and the changelog
                self._detached[query] = note

    def let_go(self) -> None:
        """Let go of failed sinks whose queries have ended and of whose rows none are kept: there is nothing to resume.
        What each has missed is written beside its rows first. Called after results were trimmed."""
        if not self._attaching.acquire(blocking=False):
            return  # somebody attaches or resumes one, which may take long: the next time will do
        try:
            core = self._catalog.core
            failed = [query for query, each in list(self._running.items()) if each.note.failed]
            failed += [query for query, note in list(self._detached.items()) if note.failed]
            for query in failed:
                with core.lock:
                    record, kept = core.roster.records.get(query), kept_from(core)
                if record is None:
                    self._running.pop(query, None)
                    self._detached.pop(query, None)
                    forget(core.directory, query)
                elif record.ended is not None and record.ended <= kept:
                    if query in self._running:
                        self._running[query].let_go(record)
                    elif self._detached.pop(query, None) is not None:  # a callback: there is no place to write to
                        finish_note(core, record)
        finally:
            self._attaching.release()

    def stop(self) -> None:
        """Stop all of them."""
        with self._attaching:
            self._stop(list(self._running))

    def _begin(self, delivery: Delivery) -> None:
        self._running[delivery.query.id] = delivery
        delivery.on_done = self._done
        delivery.start()

    def _done(self, delivery: Delivery) -> None:
        if self._running.get(delivery.query.id) is delivery:
            del self._running[delivery.query.id]

    def _stop(self, queries: Sequence[QueryId]) -> None:
        """Deliver what is committed; a sink that takes too long is left to itself."""
        stopped = [delivery for query in queries if (delivery := self._running.pop(query, None)) is not None]
        for each in stopped:
            each.stop()
        deadline = time.monotonic() + PATIENCE
        for each in stopped:
            each.join(max(0.0, deadline - time.monotonic()))
