"""How the sinks of an engine are: what each still needs, why it gets nothing, what it has missed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.engine.results.leases import kept_from
from weft.engine.sinks.delivery import Delivery
from weft.engine.sinks.notes import SinkNote, read_note
from weft.plan.changelog import QueryId

if TYPE_CHECKING:
    from weft.engine.catalog import Catalog


class SinkStates:
    """All sinks of an engine, as far as others look at them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._running: dict[QueryId, Delivery] = {}
        self._detached: dict[QueryId, SinkNote] = {}
        """Sinks that nobody has attached again, as callbacks after a start: results are kept for them, too."""

    def _note(self, query: QueryId) -> SinkNote | None:
        running = self._running.get(query)
        return read_note(self._catalog.core.directory, query) if running is None else running.note

    def _next(self, note: SinkNote) -> tuple[int, int]:
        """The query's first batch, and the one a sink goes on with: the first that it has not had and that is kept."""
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
        """Why a query's sink gets nothing now: it waits to be resumed, or the last attempt failed."""
        running = self._running.get(query)
        if running is not None:
            return running.note.failed or running.error
        note = self._detached.get(query)
        return "" if note is None else note.failed

    def state_of(self, query: QueryId) -> str:
        """Empty without a sink; "delivering", "retrying", "failed" (until resumed), or "detached" (a callback)."""
        running, detached = self._running.get(query), self._detached.get(query)
        if running is None:
            return "" if detached is None else "failed" if detached.failed else "detached"
        return "failed" if running.note.failed else "retrying" if running.error else "delivering"

    def gaps_of(self, query: QueryId) -> list[dict[str, Any]]:
        """Batches that a query's sink never had."""
        running = self._running.get(query)
        note = self._detached.get(query) if running is None else running.note
        return [] if note is None else list(note.gaps)

    def needs(self) -> list[tuple[QueryId, int]]:
        """For each sink that gets rows, or will, the first batch that is kept for it."""
        running = ((query, each.needs) for query, each in list(self._running.items()))
        detached = ((query, note.delivered) for query, note in list(self._detached.items()) if not note.failed)
        return [*((query, first) for query, first in running if first is not None), *detached]

    def note(self, query: QueryId) -> int | None:
        """Note durably how far a sink has got; returns the first batch that is kept for it."""
        running = self._running.get(query)  # it may end at any time
        if running is not None:
            running.save()
            return running.needs
        detached = self._detached.get(query)
        return None if detached is None or detached.failed else detached.delivered

    def oldest_undelivered(self) -> int | None:
        """The first batch some sink still needs."""
        return min((first for _, first in self.needs()), default=None)

    def fail(self, query: QueryId, reason: str) -> None:
        """Keep nothing for a sink any more: it gets nothing until somebody resumes it."""
        running, detached = self._running.get(query), self._detached.get(query)
        if running is not None:
            running.fail(reason)
        elif detached is not None:
            detached.failed = reason
            detached.save(self._catalog.core.directory)
