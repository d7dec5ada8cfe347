"""The states of the sinks of an engine: what each sink still needs, why it gets no rows, and what it has missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.results.leases import kept_from
from weft.engine.sinks.delivery import Delivery
from weft.engine.sinks.notes import SinkNote, read_note
from weft.plan.changelog import QueryId

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog


class SinkStates:
    """The sinks of an engine, as other modules see them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._running: dict[QueryId, Delivery] = {}
        self._detached: dict[QueryId, SinkNote] = {}
        """Sinks that are not attached, such as callbacks after a restart. Results are kept for them, too."""

    def _note(self, query: QueryId) -> SinkNote | None:
        running = self._running.get(query)
        return read_note(self._catalog.core.directory, query) if running is None else running.note

    def _next(self, note: SinkNote) -> tuple[int, int]:
        """Return the query's first batch, and the first batch that is kept and that the sink has not received."""
        core = self._catalog.core
        with core.lock:
            record = core.roster.records.get(note.query)
            if record is None:
                return note.delivered, note.delivered
            end = core.next_batch if record.ended is None else record.ended
            return record.created, max(note.delivered, min(max(record.created, kept_from(core)), end))

    def _is_missing(self, note: SinkNote) -> bool:
        created, following = self._next(note)
        return following > max(note.delivered, created)

    def error_of(self, query: QueryId) -> str:
        """Return why a query's sink gets no rows now (it waits to be resumed, or the last attempt failed), or ""."""
        running = self._running.get(query)
        if running is not None:
            return running.note.failed or running.error
        note = self._detached.get(query)
        return "" if note is None else note.failed

    def state_of(self, query: QueryId) -> str:
        """Return "delivering", "retrying", "failed" (until resumed), "detached" (a callback), or "" without a sink."""
        running, detached = self._running.get(query), self._detached.get(query)
        if running is None:
            return "" if detached is None else "failed" if detached.failed else "detached"
        return "failed" if running.note.failed else "retrying" if running.error else "delivering"

    def gaps_of(self, query: QueryId) -> list[dict[str, Any]]:
        """Return the batches that a query's sink never received."""
        running = self._running.get(query)
        note = self._detached.get(query) if running is None else running.note
        return [] if note is None else list(note.gaps)

    def needs(self) -> list[tuple[QueryId, int]]:
        """Return the first batch that is kept for each sink that has not failed."""
        running = ((query, delivery.needs) for query, delivery in list(self._running.items()))
        detached = ((query, note.delivered) for query, note in list(self._detached.items()) if not note.failed)
        return [*((query, first) for query, first in running if first is not None), *detached]

    def note(self, query: QueryId) -> int | None:
        """Write a sink's note durably and return the first batch that is kept for the sink; None if it has failed."""
        running = self._running.get(query)  # once: the delivery may end at any time
        if running is not None:
            running.save()
            return running.needs
        detached = self._detached.get(query)
        return None if detached is None or detached.failed else detached.delivered

    def oldest_undelivered(self) -> int | None:
        """Return the first batch that some sink still needs."""
        return min((first for _, first in self.needs()), default=None)

    def fail(self, query: QueryId, reason: str) -> None:
        """Mark a sink as failed: no results are kept for it, and it gets no rows until somebody resumes it."""
        running, detached = self._running.get(query), self._detached.get(query)
        if running is not None:
            running.fail(reason)
        elif detached is not None:
            detached.failed = reason
            detached.save(self._catalog.core.directory)
