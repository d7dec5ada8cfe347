"""Rows on their way to sinks, behind the batches: a thread for each, so that a slow or broken one is alone with it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.engine.core import Core
from weft.engine.roster import Request
from weft.engine.sinks import ParquetSink, Sink, claim, hand_over, release
from weft.plan.changelog import QueryId
from weft.plan.query import BoundQuery
from weft.state.directory import Directory

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
        self.query = query
        self._core, self._sink = engine.core, sink
        saved = self._core.directory.read_json("sinks", query.id + ".json") or {"delivered": 0}
        self.delivered = int(saved["delivered"])
        """The first batch that the sink has not had."""
        self._claimed = False
        self.error = ""
        self._failing_since: float | None = None
        self._done = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"weft-sink-{query.id}", daemon=True)

    def claim(self) -> None:
        """Make sure that the sink is this query's alone; raises if it cannot be."""
        if isinstance(self._sink, ParquetSink) and not self._claimed:
            claim(Path(self._sink.path), _owner(self._core.directory, self.query.id))
        self._claimed = True

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
            _log.warning("sink left behind", extra={"query": self.query.name})

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
        if self.query.id in self._core.roster.records or self._is_pending():
            self.save()
        else:
            _forget(self._core.directory, self.query.id)

    def _ended(self) -> bool:
        """Whether the sink has had all that the query will ever give."""
        with self._core.lock:
            record = self._core.roster.records.get(self.query.id)
            if record is None:
                return not self._is_pending()  # it was dropped, or could not be created, before its first boundary
            return record.ended is not None and self.delivered >= record.ended

    def _is_pending(self) -> bool:
        with self._core.lock:
            return self._core.roster.is_pending(self.query.id)

    def _deliver(self) -> bool:
        """Everything that is committed; False if the sink failed."""
        with self._core.lock:
            batches = [manifest.batch for manifest in self._core.inventory.results_of(self.delivered)]
        try:
            self.claim()
            for batch in batches:
                tables = list(self.query.tables(batch, batch + 1))
                if tables:
                    hand_over(self._sink, pa.concat_tables(tables), batch)
                self.delivered = batch + 1
                if tables:
                    self.save()
        except Exception as error:
            self._failing_since = self._failing_since or time.monotonic()
            self.error = str(error)
            _log.warning("sink failed", extra={"query": self.query.name, "error": str(error)})
            return False
        self.error, self._failing_since = "", None
        return True

    def save(self) -> None:
        """Note durably how far it has got."""
        value: dict[str, object] = {"delivered": self.delivered}
        if isinstance(self._sink, ParquetSink):
            value["parquet"] = self._sink.path
        self._core.directory.write_json(value, "sinks", self.query.id + ".json")


def _owner(directory: Directory, query: QueryId) -> str:
    return f"{directory.root}:{query}"


def _forget(directory: Directory, query: QueryId) -> None:
    """Give back what a query that never was in effect had taken: another one may get its id."""
    saved = directory.read_json("sinks", query + ".json") or {}
    if "parquet" in saved:
        release(Path(saved["parquet"]), _owner(directory, query))
    directory.path("sinks", query + ".json").unlink(missing_ok=True)


def _noted(directory: Directory) -> list[QueryId]:
    return [QueryId(path.stem) for path in directory.path("sinks").glob("q*.json")]


def give_back(core: Core) -> None:
    """After a crash: give back the sinks of queries that never were in effect. To be called before any is created."""
    for query in _noted(core.directory):
        if query not in core.roster.records:
            _forget(core.directory, query)


class Deliveries:
    """All sinks of an engine; remembers how far each has got."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._attaching = threading.Lock()
        """Held while a delivery is waited for, which may need the core's lock: never to be taken under that."""
        self._running: dict[QueryId, Delivery] = {}

    def create(self, queries: Sequence[tuple[str | None, BoundQuery]], sink: Callable[[Query], Sink | None]) -> Request:
        """Ask for queries (name or None, bound) with their sinks: after a crash both are there, or neither."""

        core = self._engine.core
        asked: list[QueryId] = []

        def prepare(request: Request) -> None:
            asked.extend(query for query, _, _ in request.created)
            for query in map(self._engine.query_by_id, asked):
                chosen = sink(query)
                if chosen is not None:
                    delivery = Delivery(self._engine, query, chosen)
                    delivery.save()  # before the directory is claimed: after a crash it can be given back
                    delivery.claim()
                    self._begin(delivery)

        try:
            return core.submit(create=queries, prepare=prepare)
        except BaseException:
            self._stop(asked)
            for query in asked:
                _forget(core.directory, query)
            raise

    def attach(self, query: Query, sink: Sink) -> None:
        """Deliver to a sink from where this query's deliveries stopped last."""
        with self._attaching:
            Delivery(self._engine, query, sink).claim()
            self._stop([query.id])
            delivery = Delivery(self._engine, query, sink)
            delivery.save()
            self._begin(delivery)

    def restore(self) -> None:
        """Attach again what needs nothing from the user's program."""
        core = self._engine.core
        give_back(core)
        for query in _noted(core.directory):
            saved = core.directory.read_json("sinks", query + ".json")
            if saved and "parquet" in saved:
                # If its directory cannot be had now, that is this delivery's error and nobody else's.
                self._begin(Delivery(self._engine, self._engine.query_by_id(query), ParquetSink(saved["parquet"])))

    def _begin(self, delivery: Delivery) -> None:
        self._running[delivery.query.id] = delivery
        delivery.start()

    def _stop(self, queries: Sequence[QueryId]) -> None:
        """Deliver what is committed; a sink that takes too long is left to itself."""
        stopped = [delivery for query in queries if (delivery := self._running.pop(query, None)) is not None]
        for each in stopped:
            each.stop()
        deadline = time.monotonic() + PATIENCE
        for each in stopped:
            each.join(max(0.0, deadline - time.monotonic()))

    def error_of(self, query: QueryId) -> str:
        """The last error of a query's sink, if that is failing now."""
        delivery = self._running.get(query)
        return "" if delivery is None else delivery.error

    def oldest_undelivered(self) -> int | None:
        """The first batch some sink still needs."""
        return min((needs for each in list(self._running.values()) if (needs := each.needs) is not None), default=None)

    def stop(self) -> None:
        """Stop all of them."""
        with self._attaching:
            self._stop(list(self._running))
