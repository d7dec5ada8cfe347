"""Requests to the core: create and drop queries, declare and drop streams, register sinks, set watermarks back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from weft.engine.inputs.stream_store import remove_stream, save_stream
from weft.engine.ledger import Ledger
from weft.engine.queries.requests import Request
from weft.errors import StreamInUse, UnknownStream
from weft.plan.changelog import Change, Failure, QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.storage.uninterrupted import defer_signals

_log = logging.getLogger("weft")
LONGEST_JOURNAL = 1000
"""A checkpoint is written when the journal has more entries than this since the last one, even without batches."""
Prepare = Callable[[Request], None]


class Asked(Ledger):
    """The part of `Core` that accepts requests and puts them into effect through durable changelog entries."""

    def submit(
        self,
        *,
        create: Sequence[tuple[str | None, BoundQuery]] = (),
        drop: Sequence[QueryId] = (),
        prepare: Prepare | None = None,
    ) -> Request:
        """Request that queries be created, (name or None, bound query), and dropped together, all or nothing.

        Between batches the request takes effect at once; during a batch it waits for the boundary. `prepare` is called
        when the queries have their ids but are not in effect yet; if it raises, the request is cancelled.
        """
        with self.lock:
            for _, query in create:
                for relation in query.relations:
                    if relation.stream not in self.streams:  # dropped since the query was bound
                        raise UnknownStream(f'stream "{relation.stream}" does not exist')
            request = self.roster.request(create, drop, ready=prepare is None)
        return self._take_up(request, prepare)

    def set_aside(self, query: QueryId, batch: int, error: str) -> None:
        """End a query as failed before `batch`, for example because it failed on a row or made the whole batch fail.

        Results of earlier batches stay readable.
        """
        with self.lock:
            request = self.roster.request_end(Failure(query, batch, error))
        if request is not None:
            self._take_up(request, None)

    def _take_up(self, request: Request, prepare: Prepare | None) -> Request:
        """Prepare a request and put it into effect, unless a batch is running."""
        try:
            if prepare is not None:
                prepare(request)
                with self.lock:
                    request.ready = True
            if self.running is None:
                with self._changing:
                    if self.running is None:
                        self._apply_pending()
        except BaseException:
            with self.lock:
                if not request.done.is_set():  # else it is in effect, and only later work was interrupted
                    self.roster.cancel(request)
            raise
        return request

    def set_watermark(self, stream: str, time: int) -> Request:
        """Request that a stream's watermark be set back durably, at the boundary, to an event time in microseconds."""
        with self.lock:
            request = self.roster.request_set_back(stream, time, self.watermarks())
        return self._take_up(request, None)

    def note_sink(self, query: QueryId) -> None:
        """Record durably that a query has a sink, so that a restart detects a missing note of the sink (`SinkNote`)."""
        with self._changing:
            with self.lock:
                for request in self.roster.pending:
                    if any(query == created for created, _, _ in request.created):
                        request.sinks.add(query)  # written to the changelog together with the query
                        return
                if query in self.roster.sinks:
                    return
            change = Change(self.next_batch, (), (), sinks=(query,))
            with defer_signals():
                self._journal.write_change(change)
                with self.lock:
                    self.roster.sinks.add(query)

    def add_stream(self, stream: Stream) -> None:
        """Declare a stream; it is in the plan from the next batch on."""
        with self._changing:
            save_stream(self.directory, stream)
            with defer_signals():
                self._journal.write_change(Change(self.next_batch, (), (), declared=(stream.name,)))
                with self.lock:
                    self.streams[stream.name] = stream
                    self.planning.forget()

    def drop_stream(self, name: str) -> None:
        """Remove a stream that no query reads, the rows read from it, and the records of ended queries over it.

        Raises UnknownStream, or StreamInUse while a batch runs or a live or pending query reads the stream.
        """
        with self._changing:
            with self.lock:
                if name not in self.streams:
                    raise UnknownStream(f'stream "{name}" does not exist')
                if self.running is not None:
                    raise StreamInUse(f'stream "{name}" cannot be dropped while a batch runs', hint="Try again.")
                readers = self.roster.readers_of(name)
                if readers:
                    raise StreamInUse(
                        f'stream "{name}" is read by query "{next(iter(readers.values()))}"',
                        detail=f"{len(readers)} queries read it.",
                        hint="Drop them first, or drop the stream with cascade.",
                    )
                del self.streams[name]
                self.roster.bound.forget()
                self.max_times.pop(name, None)
                self.offsets.pop(name, None)
                self.files.drop(name)
                self.clocks.forget(name)
                self.planning.forget()
            # The checkpoint makes the removal durable before the name can be declared again with another schema. There
            # may be many records on disk, so `lock` is not held meanwhile: only other changes wait.
            self.roster.records.forget_over(name, self.lock)
            self.checkpoint()
            remove_stream(self.directory, name)

    def _apply_pending(self) -> None:
        """Write all ready requests as one durable changelog entry for the next batch and put them into effect."""
        with self.lock:
            requests = self.roster.ready()
            if not requests:
                return
            change = self.roster.change(self.next_batch, self.max_times)
        with defer_signals():
            self._journal.write_change(change)
            with self.lock:
                self._fold_change(change)
                self.roster.acknowledge(requests)
        try:  # the change is in effect even if this fails; the next change tries again
            if self._journal.length > LONGEST_JOURNAL:
                self.checkpoint()
            elif self.roster.has_many_ended:
                self.roster.records.settle(self.lock)
        except Exception as error:
            _log.error("summing up changes failed: %s", error)
