"""The one owner of mutable state: what is live, what is on disk, what each batch has to do.

`Core` knows nothing of Spark: it turns requests into changelogs, says what a batch has to do (`begin`), and takes
what its tasks report (`commit`). Everything it knows it can read back from the state directory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.engine.ledger import Ledger
from weft.engine.registry import remove_stream, save_stream
from weft.engine.reports import gather, of_task
from weft.engine.requests import Request
from weft.errors import BatchInterrupted, StateCorrupt, StreamInUse, UnknownStream
from weft.plan.changelog import Change, Failure, LiveQuery, QueryId
from weft.plan.query import BoundQuery
from weft.plan.stream import Stream
from weft.runtime.task import NO_INPUTS, BatchInputs, BatchTask, Program, compile_program
from weft.state.journal import Manifest

_log = logging.getLogger("weft")
CHECKPOINT_EVERY = 50
LONGEST_JOURNAL = 1000
"""Entries since the last checkpoint before everything is summed up, though no batch was run meanwhile."""
Prepare = Callable[[Request], None]


class Core(Ledger):
    """What an engine knows and does between batches; its methods are safe to call from any thread."""

    # ---- requests

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
            self._journal.write_change(change)
            with self.lock:
                self.roster.sinks.add(query)

    def add_stream(self, stream: Stream) -> None:
        """Declare a stream; it is in the plan from the next batch on."""
        with self._changing:
            save_stream(self.directory, stream)
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
                        f'stream "{name}" is read by query "{readers[0]}"',
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

    def tidy(self) -> None:
        """Free what only dropped queries needed, when there is no batch whose commit would do it."""
        if self._has_garbage and self.running is None:
            with self._changing:
                if self.running is None:
                    self._collect()

    # ---- the life of a batch

    def begin(
        self, batch: int, *, partitions: int, inputs: BatchInputs = NO_INPUTS
    ) -> tuple[Program, BatchTask] | None:
        """What batch `batch` has to do with these inputs; None if it is committed already."""
        with self._changing:
            if batch == self.next_batch - 1:
                return None
            if batch != self.next_batch:
                raise StateCorrupt(
                    f"batch {batch} was to be run but the state directory is at batch {self.next_batch}",
                    hint="This is a bug in weft, or another process has changed the state directory.",
                )
            self._apply_pending()
            self.running = batch  # requests wait from here on, so a slow plan holds up nobody
            try:
                planned = self.planned()
                with self.lock:
                    self._task = self._make_task(batch, partitions, planned.plan, inputs)
                    self._program = planned.program
            except BaseException:
                self.running = None
                raise
            return planned.program, self._task

    def trial(self, batch: int, *, partitions: int, inputs: BatchInputs, queries: Sequence[LiveQuery]) -> (
        tuple[Program, BatchTask]
    ):  # fmt: skip
        """The same batch for some of the live queries only: what its tasks report is not to be committed."""
        with self.lock:
            streams, results = dict(self.streams), self.inventory.results
        plan = self.planning.imagine(queries, streams, results)
        with self.lock:
            task = self._make_task(batch, partitions, plan, inputs)
        return compile_program(plan, streams), replace(task, merges=())

    def abort(self, attempt: str | None = None) -> None:
        """The running batch failed, or is given up: nothing of it counts; waiting requests take effect now. With
        `attempt`, only if that attempt is the one that runs."""
        with self._changing:
            with self.lock:
                if self._task is None or (attempt is not None and self._task.attempt != attempt):
                    return
                self.running, task, self._task, self._program = None, self._task, None, None
                self.committed.notify_all()
            self.inventory.remove_attempt(task.batch, task.attempt)
            self._apply_pending()

    def commit(self, batch: int, reports: Sequence[Mapping[str, Any]], *, attempt: str | None = None) -> Manifest:
        """Make the reported files of a batch exist, then free what nobody can reach any more. Raises BatchInterrupted
        if the batch was given up meanwhile."""
        with self._changing:
            task = self._task
            if task is None or (attempt is not None and task.attempt != attempt):
                raise BatchInterrupted(f"batch {batch} was given up before it could be committed")
            # The program that has run, whatever the plan is by now: a stream may have been declared meanwhile.
            program = self._program
            assert program is not None, "a task has a program"
            manifest = gather(batch, reports, program, self.roster.live.values())
            manifest = replace(of_task(manifest, program, task), freed=self.inventory.freed)
            self._journal.write_manifest(manifest)
            with self.lock:
                gone = self._fold_manifest(manifest)
                self.running = self._task = self._program = None
                self.planning.learn(batch, reports)
                self.clocks.note(name for name, totals in manifest.streams if totals.counted)
            self._after_commit(manifest, gone)
            return manifest

    def _after_commit(self, manifest: Manifest, gone: Sequence[str]) -> None:
        """Free, sum up, apply requests. The batch counts, whatever fails of this: the next one does it again."""
        try:
            self.inventory.folder.remove(gone)
            self._collect()
            self.inventory.folder.remove_unnamed(manifest)
            if self.next_batch - self._summed_up >= CHECKPOINT_EVERY:
                self.checkpoint()
            self._apply_pending()
        except Exception as error:
            _log.error("tidying up after batch %d failed: %s", manifest.batch, error, extra={"batch": manifest.batch})
        with self.lock:
            self.committed.notify_all()

    def trim_results(self, before: int) -> None:
        """Forget the results of batches older than `before`; who reads them already may do so to the end."""
        with self._changing:
            with self.lock:
                limit = self.leases.limit(min(before, self.next_batch))
            self.inventory.trim(limit)
