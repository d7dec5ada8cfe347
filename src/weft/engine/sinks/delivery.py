"""One query's rows on their way to one sink: a thread that delivers what is committed, and tries again what fails.

A sink is never given rows with a hole in them: if the batch it needs next is not kept any more, it has failed, which
is durable, and nothing is delivered until somebody resumes it.
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
"""Seconds before a sink that failed is tried again: at first, and after many failures in a row."""
_LONGEST_BUSY = 5.0
_AT_ONCE = 256
"""Batches that are looked at together."""
_NOTE_BATCHES, _NOTE_SECONDS = 100, 30.0
"""How far a sink gets without rows before that is noted: what was not noted is delivered again after a crash."""


class Delivery:
    """The rows of one query on their way to one sink."""

    def __init__(self, core: Core, query: Query, sink: Sink, *, note: SinkNote) -> None:
        self.query, self.note = query, note
        self._core, self._sink = core, sink
        self._lock = threading.Lock()
        """Of the note."""
        self._noted, self._noted_at = note.delivered, time.monotonic()
        """What of it is durable."""
        self._ready = False
        self._silent = False
        """Whether nothing is noted any more: it is done, or the directory may be another engine's by now."""
        self.error = ""
        """Why the last attempt did not succeed; it will be tried again."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._let_go_at = 0.0
        """When its end is tried again."""
        self.on_done: Callable[[Delivery], None] = lambda _: None
        """Called when the query has ended and the sink has had everything."""

    # ---- what others may do

    def claim(self) -> None:
        """Make sure that the sink is this query's alone; raises if it cannot be."""
        if not self._ready:
            claim_for(self._core, self.query.id, self._sink)
            write_gaps(self._sink, self.note.gaps)
        self._ready = True

    def start(self) -> None:
        """Begin to deliver, unless it has failed."""
        if not self.note.failed:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name=f"weft-sink-{self.query.id}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Deliver what is committed, once, and no more; `join` waits for the end."""
        self._stopping.set()
        with self._core.lock:
            self._core.committed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the end; a sink that takes longer is left to itself."""
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                self._silent = True
                _log.warning("sink of query %s takes too long to stop and is left behind", self.query.name)

    @property
    def needs(self) -> int | None:
        """The first batch whose results are kept for it; None if none are."""
        return None if self.note.failed else self._noted

    def fail(self, reason: str) -> None:
        """Deliver nothing more until somebody resumes it; durable before this returns."""
        with self._lock:
            if not self.note.failed:
                self.note.failed = reason
                self._save()
                _log.error("sink of query %s has failed and waits to be resumed: %s", self.query.name, reason)

    def resume(self, batch: int, *, created: int) -> None:
        """Go on with `batch`; what is missing before it, since the query's first batch, is noted."""
        if self._thread is not None:
            self._thread.join(_LONGEST_BUSY)
            if self._thread.is_alive():
                raise InvalidSetting(
                    f'the sink of query "{self.query.name}" is still busy with batch {self.note.delivered}',
                    hint="Resume it when it has come back from that.",
                )
        with self._lock:
            self.note.skip_to(batch, created=created)
            self.error, self._ready = "", False  # the gap is to be written beside the rows first
            self._save()
        self.start()

    def let_go(self, record: QueryRecord) -> None:
        """It has failed, its query has ended and none of the rows are kept: write down what is missing and end, in a
        thread of its own, because the sink may not answer. If that fails it can be asked for again."""
        now = time.monotonic()
        is_busy = self._thread is not None and self._thread.is_alive()
        if not is_busy and now >= self._let_go_at:
            self._let_go_at = now + _LONGEST_PAUSE
            name = f"weft-sink-{self.query.id}"
            self._thread = threading.Thread(target=self._let_go, args=(record,), name=name, daemon=True)
            self._thread.start()

    # ---- what its thread does

    def _let_go(self, record: QueryRecord) -> None:
        left = replace(self.note)
        left.skip_to(record.ended or record.created, created=record.created)
        try:
            claim_for(self._core, self.query.id, self._sink)
            write_gaps(self._sink, left.gaps)
            self._finish()
            _log.warning("sink of query %s ends without batches %s", self.query.name, left.gaps[-1:])
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
        except (OSError, WeftError) as error:  # after a restart it is found as it was
            _log.error("how far the sink of query %s has got cannot be noted: %s", self.query.name, error)

    def _finish(self) -> None:
        """The query has ended and the sink has had all: neither thread nor file is left of it."""
        record = record_of(self._core, self.query.id)
        with self._lock:
            self._silent = True
        if record is None:
            forget(self._core.directory, self.query.id)
        else:
            finish_note(self._core, record)
        self.on_done(self)

    def _is_done(self) -> bool:
        """Whether the sink has had all that the query will ever give."""
        with locked_record(self._core, self.query.id) as record:
            if record is None:  # it was dropped, or could not be created, before its first boundary
                return not self._core.roster.is_pending(self.query.id)
            return record.ended is not None and self.note.delivered >= record.ended

    def _deliver(self) -> bool:
        """Everything that is committed; False if the sink failed.

        Another thread may fail it at any time, and what it needs next is not kept for it from then on: it goes no
        further than the batch that it is busy with.
        """
        try:
            self.claim()
            following = self._core.next_batch
            for begin in range(self.note.delivered, following, _AT_ONCE):
                end = min(begin + _AT_ONCE, following)
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
        """Note durably how far it has got."""
        with self._lock:
            self._save()

    def _save(self) -> None:
        if self._silent:
            return
        self.note.save(self._core.directory)
        self._noted, self._noted_at = self.note.delivered, time.monotonic()


def check_kept(core: Core, query: QueryId, delivered: int) -> None:
    """Raise ResultsGone if the batch that comes next is not kept any more."""
    with locked_record(core, query) as record:
        kept = kept_from(core)
        if record is None:
            return
        first = max(delivered, record.created)
        if first < (kept if record.ended is None else min(kept, record.ended)):
            raise ResultsGone(f"results of batches {first} to {kept - 1} are not kept any more")
