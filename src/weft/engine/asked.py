"""What is asked of an engine between batches: queries to create and drop, streams, sinks, watermarks."""

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
"""Entries since the last checkpoint before everything is summed up, though no batch was run meanwhile."""
Prepare = Callable[[Request], None]


class Asked(Ledger):
    """Takes requests and puts them into effect, each as one durable entry of the changelog."""

    def submit(
        self,
        *,
        create: Sequence[tuple[str | None, BoundQuery]] = (),
        drop: Sequence[QueryId] = (),
        prepare: Prepare | None = None,
    ) -> Request:
        """Ask for queries to be created (name or None, bound) and dropped together, all or nothing.

        Between batches the request takes effect at once; during a batch it waits for the boundary. `prepare` is called
        when the queries have their ids and are not in effect yet; if it raises, nothing was asked for.
        """
        with self.lock:
            for _, query in create:
                for relation in query.relations:
                    if relation.stream not in self.streams:  # it was dropped since the text was checked
                        raise UnknownStream(f'stream "{relation.stream}" does not exist')
            request = self.roster.request(create, drop, ready=prepare is None)
        return self._take_up(request, prepare)

    def set_aside(self, query: QueryId, batch: int, error: str) -> None:
        """End a query whose own expression failed on a row of `batch`, or that makes the batch fail as a whole; what
        it had before stays readable."""
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
                if not request.done.is_set():  # else it is in effect, and somebody has interrupted what came after
                    self.roster.cancel(request)
            raise
        return request

    def set_watermark(self, stream: str, time: int) -> Request:
        """Set a stream's watermark back to an event time in microseconds, at the boundary and for good."""
        with self.lock:
            request = self.roster.request_set_back(stream, time, self.watermarks())
        return self._take_up(request, None)

    def note_sink(self, query: QueryId) -> None:
        """A query has a sink now, and a file that says how far it has got: durably, so that the file is missed."""
        with self._changing:
            with self.lock:
                for request in self.roster.pending:
                    if any(query == created for created, _, _ in request.created):
                        request.sinks.add(query)  # it is in the changelog with the query itself
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
        """Remove a stream that no live query reads, with the records of ended queries over it and what was read of it.

        Raises UnknownStream, or StreamInUse while a batch runs or a query reads it.
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
            # The records go with the checkpoint, before the name can be declared with another schema. There may be many
            # on disk: nobody waits for that but those who want to change something, too.
            self.roster.records.forget_over(name, self.lock)
            self.checkpoint()
            remove_stream(self.directory, name)

    def _apply_pending(self) -> None:
        """Make all requests that are ready one durable changelog entry for the next batch."""
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
        try:  # what is in effect is, whatever fails of this: the next change does it again
            if self._journal.length > LONGEST_JOURNAL:
                self.checkpoint()
            elif self.roster.has_many_ended:
                self.roster.records.settle(self.lock)
        except Exception as error:
            _log.error("summing up changes failed: %s", error)
