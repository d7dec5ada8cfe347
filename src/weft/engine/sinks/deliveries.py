"""All sinks of an engine. One thread per sink: a slow or failing sink delays neither batches nor other sinks."""

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
"""Seconds that all sinks together have to receive the last rows when the engine stops."""


class Deliveries(SinkStates):
    """The sinks of an engine and the deliveries to them."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__(catalog)
        self._attaching = threading.Lock()
        """Held while waiting for a delivery, which may need the core's lock. Do not take it under the core's lock."""

    # ---- attaching and detaching

    def begin(self, query: Query, sink: Sink) -> None:
        """Attach a sink to a query that is not in effect yet; `withdraw` undoes this."""
        core = self._catalog.core
        delivery = Delivery(core, query, sink, note=new_note(core, query.id, sink))
        delivery.save()  # before the claim, so that a restart after a crash can release the directory
        delivery.claim()
        self._begin(delivery)

    def withdraw(self, queries: Sequence[QueryId]) -> None:
        """Remove the sinks of queries that will not take effect."""
        self._stop(queries)
        for query in queries:
            forget(self._catalog.core.directory, query)

    def attach(self, query: Query, sink: Sink, *, skip_missing: bool = False) -> None:
        """Deliver to a sink from where the query's last delivery stopped.

        Raises ResultsGone if the next rows are no longer kept, unless `skip_missing`, which notes the gap.
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
        """Let a failed sink continue with the rows that are kept and note the gap. Harmless if it has not failed."""
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
        """Load all sinks and start those to Parquet; callbacks stay detached until the user's program attaches them."""
        self.remember()
        for query, note in list(self._detached.items()):
            if note.parquet is not None:
                del self._detached[query]
                # The delivery claims its directory in its thread, so a failure to do so affects no other sink.
                handle = self._catalog.query_by_id(query)
                self._begin(Delivery(self._catalog.core, handle, ParquetSink(note.parquet), note=note))
        self.let_go()

    def remember(self) -> None:
        """Load all sinks as detached and clean up after a crash; raises StateCorrupt if a sink's note is missing."""
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
                core.note_sink(query)  # a crash may have come between the note and the changelog
                self._detached[query] = note

    def let_go(self) -> None:
        """End failed sinks that cannot be resumed, because their queries have ended and none of their rows are kept.

        The missed batches are first written beside the rows. Call this after results were trimmed.
        """
        if not self._attaching.acquire(blocking=False):
            return  # a sink is being attached or resumed, which may take long; the next call does the work
        try:
            core = self._catalog.core
            failed = [query for query, delivery in list(self._running.items()) if delivery.note.failed]
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
                    elif self._detached.pop(query, None) is not None:  # a callback, which has no place for gaps
                        finish_note(core, record)
        finally:
            self._attaching.release()

    def stop(self) -> None:
        """Stop all deliveries."""
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
        """Stop deliveries when they have delivered what is committed; sinks that take too long are abandoned."""
        stopped = [running for query in queries if (running := self._running.pop(query, None)) is not None]
        for delivery in stopped:
            delivery.stop()
        deadline = time.monotonic() + PATIENCE
        for delivery in stopped:
            delivery.join(max(0.0, deadline - time.monotonic()))
