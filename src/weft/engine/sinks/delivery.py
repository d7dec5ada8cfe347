"""The delivery of one query's rows to one sink: a thread that delivers committed batches and retries after failures.

A sink never skips a batch silently. If its next batch is no longer kept, the sink fails durably, and nothing is
delivered until somebody resumes it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.engine.queries.look import locked_record, record_of
from weft.engine.results.leases import kept_from
from weft.engine.sinks.notes import SinkNote, claim_for, finish_note, forget
from weft.engine.sinks.sinks import Sink, hand_over, write_gaps
from weft.errors import InvalidSetting, ResultsGone, WeftError
from weft.plan.changelog import QueryId, QueryRecord

if TYPE_CHECKING:
    from weft.engine.core import Core
    from weft.engine.query import Query

_log = logging.getLogger("weft.sinks")
_LOOK_EVERY = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a failed attempt is repeated: after the first failure, and after many in a row."""
_LONGEST_BUSY = 5.0
_AT_ONCE = 256
"""Batches that are looked up at a time."""
_NOTE_BATCHES, _NOTE_SECONDS = 100, 30.0
"""Batches or seconds after which progress without rows is noted; a crash repeats the batches since the last note."""


class Delivery:
    """The delivery of one query's rows to one sink."""

    def __init__(self, core: Core, query: Query, sink: Sink, *, note: SinkNote) -> None:
        self.query, self.note = query, note
        self._core, self._sink = core, sink
        self._lock = threading.Lock()
        """Guards the note."""
        self._noted, self._noted_at = note.delivered, time.monotonic()
        """The progress that is durable, and when it was written."""
        self._ready = False
        self._silent = False
        """Whether to write no more notes: all is delivered, or another engine may own the state directory by now."""
        self.error = ""
        """Why the last attempt failed, which is repeated; empty if it succeeded."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._let_go_at = 0.0
        """The earliest time for the next attempt to let go."""
        self.on_done: Callable[[Delivery], None] = lambda _: None
        """Called when nothing is left to deliver to the sink."""

    # ---- control

    def claim(self) -> None:
        """Claim the sink for this query alone and write its gaps; raises if that is not possible."""
        if not self._ready:
            claim_for(self._core, self.query.id, self._sink)
            write_gaps(self._sink, self.note.gaps)
        self._ready = True

    def start(self) -> None:
        """Start to deliver, unless the sink has failed."""
        if not self.note.failed:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=f"weft-sink-{self.query.id}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Make one last attempt to deliver what is committed, and stop; `join` waits for the end."""
        self._stopping.set()
        with self._core.lock:
            self._core.committed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait up to `seconds` for the end; a sink that takes longer is abandoned."""
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                self._silent = True
                _log.warning("sink of query %s takes too long to stop and is left behind", self.query.name)

    @property
    def needs(self) -> int | None:
        """The first batch whose results are kept for the sink; None if it has failed."""
        return None if self.note.failed else self._noted

    def fail(self, reason: str) -> None:
        """Mark the sink as failed, durably before this returns; nothing is delivered until somebody resumes it."""
        with self._lock:
            if not self.note.failed:
                self.note.failed = reason
                self._save()
                _log.error("sink of query %s has failed and waits to be resumed: %s", self.query.name, reason)

    def resume(self, batch: int, *, created: int) -> None:
        """Continue with `batch` and note a gap if batches since `created`, the query's first, are skipped."""
        if self._thread is not None:
            self._thread.join(_LONGEST_BUSY)
            if self._thread.is_alive():
                raise InvalidSetting(
                    f'the sink of query "{self.query.name}" is still busy with batch {self.note.delivered}',
                    hint="Resume it when it has come back from that.",
                )
        with self._lock:
            self.note.skip_to(batch, created=created)
            self.error, self._ready = "", False  # `claim` writes the gap beside the rows first
            self._save()
        self.start()

    def let_go(self, record: QueryRecord) -> None:
        """End a failed sink whose query has ended and whose rows are not kept, after writing down what is missing.

        This runs in a thread, because the sink may not answer. If it fails, `let_go` can be called again.
        """
        now = time.monotonic()
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and now >= self._let_go_at:
            self._let_go_at = now + _LONGEST_PAUSE
            name = f"weft-sink-{self.query.id}"
            self._thread = threading.Thread(target=self._let_go, args=(record,), name=name, daemon=True)
            self._thread.start()

    # ---- the thread

    def _let_go(self, record: QueryRecord) -> None:
        final = replace(self.note)
        final.skip_to(record.ended or record.created, created=record.created)
        try:
            claim_for(self._core, self.query.id, self._sink)
            write_gaps(self._sink, final.gaps)
            self._finish()
            _log.warning("sink of query %s ends without batches %s", self.query.name, final.gaps[-1:])
        except (OSError, WeftError) as error:
            _log.warning("what the sink of query %s has missed cannot be written down: %s", self.query.name, error)

    def _run(self) -> None:
        pause, seen = 0.0, -1
        while not self._is_done():
            if pause:
                self._stopping.wait(pause)
            else:
                with self._core.lock:
                    if self._core.next_batch == seen and not self._stopping.is_set():
                        self._core.committed.wait(_LOOK_EVERY)
                    seen = self._core.next_batch
            stopping = self._stopping.is_set()
            pause = 0.0 if self._deliver() else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            if self.note.failed:
                return
            if stopping:
                break
        try:
            if self._is_done():
                self._finish()
            else:
                self.save()
        except (OSError, WeftError) as error:  # a restart continues from the last note
            _log.error("how far the sink of query %s has got cannot be noted: %s", self.query.name, error)

    def _finish(self) -> None:
        """Remove the note when the query has ended and nothing is left to deliver."""
        record = record_of(self._core, self.query.id)
        with self._lock:
            self._silent = True
        if record is None:
            forget(self._core.directory, self.query.id)
        else:
            finish_note(self._core, record)
        self.on_done(self)

    def _is_done(self) -> bool:
        """Return whether the sink has received all rows that the query will ever produce."""
        with locked_record(self._core, self.query.id) as record:
            if record is None:  # it is pending, or was dropped or cancelled before its first boundary
                return not self._core.roster.is_pending(self.query.id)
            return record.ended is not None and self.note.delivered >= record.ended

    def _deliver(self) -> bool:
        """Deliver everything that is committed; return False if the sink failed.

        Another thread may mark the sink as failed at any time. From then on no results are kept for the sink, so
        delivery stops after the current batch.
        """
        try:
            self.claim()
            next_batch = self._core.next_batch
            for begin in range(self.note.delivered, next_batch, _AT_ONCE):
                end = min(begin + _AT_ONCE, next_batch)
                check_kept(self._core, self.query.id, self.note.delivered)
                for batch in self.query.batches(begin, end):
                    if self.note.failed:
                        return False
                    rows = hand_over(self._sink, self.query.tables(batch, batch + 1), batch)
                    self._advance(batch + 1, note=rows > 0)
                if self.note.failed:
                    return False
                self._advance(end)
        except ResultsGone as gone:
            self.fail(f"{gone.message}; batch {self.note.delivered} is the first that was not delivered")
            return False
        except Exception as error:
            self.error = str(error) or type(error).__name__
            _log.warning("sink of query %s failed and will be tried again: %s", self.query.name, self.error)
            return False
        self.error = ""
        return True

    def _advance(self, delivered: int, *, note: bool = False) -> None:
        with self._lock:
            self.note.delivered = max(self.note.delivered, delivered)
            behind = self.note.delivered - self._noted
            late = behind and time.monotonic() - self._noted_at > _NOTE_SECONDS
            if note or behind >= _NOTE_BATCHES or late:
                self._save()

    def save(self) -> None:
        """Write the note durably."""
        with self._lock:
            self._save()

    def _save(self) -> None:
        if self._silent:
            return
        self.note.save(self._core.directory)
        self._noted, self._noted_at = self.note.delivered, time.monotonic()


def check_kept(core: Core, query: QueryId, delivered: int) -> None:
    """Raise ResultsGone if the next batch to deliver, `delivered` or the query's first, is no longer kept."""
    with locked_record(core, query) as record:
        kept = kept_from(core)
        if record is None:
            return
        first = max(delivered, record.created)
        if first < (kept if record.ended is None else min(kept, record.ended)):
            raise ResultsGone(f"results of batches {first} to {kept - 1} are not kept any more")
