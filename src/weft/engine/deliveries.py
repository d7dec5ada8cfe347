"""Rows on their way to sinks, behind the batches: a thread for each, so that a slow or broken one is alone with it."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.engine.sinks import ParquetSink, Sink, claim, hand_over, release
from weft.plan.changelog import QueryId

if TYPE_CHECKING:
    from weft.engine.engine import Engine
    from weft.engine.query import Query

_log = logging.getLogger("weft.sinks")
_LOOK_EVERY = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0
"""Seconds before a sink that failed is tried again: at first, and after many failures in a row."""
PATIENCE = 30.0
"""Seconds that sinks have to take the last rows when the engine stops."""
SET_ASIDE_AFTER = 900.0
"""Seconds of failure after which results are no longer kept for a sink: it must not fill the disk of all others."""


class Delivery:
    """The rows of one query on their way to one sink."""

    def __init__(self, engine: Engine, query: Query, sink: Sink) -> None:
        self._core, self._query, self._sink = engine.core, query, sink
        self._saved = self._core.directory.read_json("sinks", query.id + ".json") or {"delivered": 0}
        if isinstance(sink, ParquetSink):
            claim(Path(sink.path), f"{self._core.directory.root}:{query.id}")
            self._saved["parquet"] = sink.path
        self.delivered = int(self._saved["delivered"])
        """The first batch that the sink has not had."""
        self._save()
        self.error = ""
        self._failing_since: float | None = None
        self._done = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"weft-sink-{query.id}", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self) -> None:
        """Deliver what is committed, once, and no more; `join` waits for the end."""
        self._stopping.set()
        with self._core.lock:
            self._core.committed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait for the end; a sink that takes longer is left to itself."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            _log.warning("sink left behind", extra={"query": self._query.name})

    @property
    def needs(self) -> int | None:
        """The first batch whose results are kept for it; None if none are."""
        since = self._failing_since
        set_aside = since is not None and time.monotonic() - since > SET_ASIDE_AFTER
        return None if self._done or set_aside else self.delivered

    def _run(self) -> None:
        pause, seen = 0.0, -1
        while not self._ended():
            if pause:
                self._stopping.wait(pause)
            else:
                with self._core.lock:
                    if self._core.next_batch == seen and not self._stopping.is_set():
                        self._core.committed.wait(_LOOK_EVERY)
                    seen = self._core.next_batch
            stopping = self._stopping.is_set()
            pause = 0.0 if self._deliver() else min(max(2 * pause, _FIRST_PAUSE), _LONGEST_PAUSE)
            if stopping:
                break
        else:
            self._done = True
        self._save()

    def _ended(self) -> bool:
        """Whether the sink has had all that the query will ever give."""
        with self._core.lock:
            record = self._core.roster.records.get(self._query.id)
            return record is not None and record.ended is not None and self.delivered >= record.ended

    def _deliver(self) -> bool:
        """Everything that is committed; False if the sink failed."""
        with self._core.lock:
            batches = [m.batch for m in self._core.inventory.results if m.batch >= self.delivered]
        try:
            for batch in batches:
                tables = list(self._query.tables(batch, batch + 1))
                if tables:
                    hand_over(self._sink, pa.concat_tables(tables), batch)
                self.delivered = batch + 1
                if tables:
                    self._save()
        except Exception as error:
            self._failing_since = self._failing_since or time.monotonic()
            self.error = str(error)
            _log.warning("sink failed", extra={"query": self._query.name, "error": str(error)})
            return False
        self.error, self._failing_since = "", None
        return True

    def _save(self) -> None:
        value = self._saved | {"delivered": self.delivered}
        self._core.directory.write_json(value, "sinks", self._query.id + ".json")


class Deliveries:
    """All sinks of an engine; remembers how far each has got."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._running: dict[QueryId, Delivery] = {}

    def attach(self, query: Query, sink: Sink) -> None:
        """Deliver to a sink from where this query's deliveries stopped last."""
        with self._lock:
            before = self._running.pop(query.id, None)
            if before is not None:
                before.stop()
                before.join(PATIENCE)
            delivery = Delivery(self._engine, query, sink)
            self._running[query.id] = delivery
            delivery.start()

    def restore(self) -> None:
        """Attach again what needs nothing from the user's program."""
        directory = self._engine.core.directory
        for path in directory.path("sinks").glob("q*.json"):
            saved, query = directory.read_json("sinks", path.name), QueryId(path.stem)
            if query not in self._engine.core.roster.records:
                path.unlink()  # its query was never in effect, and another one will get its id
                if saved and "parquet" in saved:
                    release(Path(saved["parquet"]), f"{directory.root}:{query}")
            elif saved and "parquet" in saved:
                self.attach(self._engine.query_by_id(query), ParquetSink(saved["parquet"]))

    def error_of(self, query: QueryId) -> str:
        """The last error of a query's sink, if that is failing now."""
        delivery = self._running.get(query)
        return "" if delivery is None else delivery.error

    def oldest_undelivered(self) -> int | None:
        """The first batch some sink still needs."""
        return min((needs for each in list(self._running.values()) if (needs := each.needs) is not None), default=None)

    def stop(self) -> None:
        """Deliver what is committed; a sink that takes too long is left to itself."""
        with self._lock:
            running, self._running = list(self._running.values()), {}
        for each in running:
            each.stop()
        deadline = time.monotonic() + PATIENCE
        for each in running:
            each.join(max(0.0, deadline - time.monotonic()))
