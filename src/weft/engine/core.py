"""The one owner of mutable state: what is live, what is on disk, what each batch has to do.

`Core` knows nothing of Spark: it turns requests into changelogs, says what a batch has to do (`begin`), and takes
what its tasks report (`commit`). Everything it knows it can read back from the state directory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from weft.engine.idle import Idleness
from weft.engine.inventory import Inventory
from weft.engine.planning import Planning, to_rebuild
from weft.engine.registry import load_streams, save_stream
from weft.engine.reports import ended_windows, gather
from weft.engine.roster import Request, Roster
from weft.errors import StateCorrupt
from weft.optimize.multiway import Planner, plan_probes
from weft.plan.changelog import Change, Failure, QueryId
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedPlan
from weft.plan.stream import Stream
from weft.plan.window import to_micros
from weft.runtime.task import BatchTask, Program
from weft.state.directory import Directory
from weft.state.journal import Journal, Manifest

CHECKPOINT_EVERY = 50
Prepare = Callable[[Request], None]


def _nothing(_: Request) -> None:
    """Nothing is to be prepared."""


class Core:
    """State of an engine, recovered from its directory; its methods are safe to call from any thread."""

    def __init__(self, directory: Directory, *, planner: Planner = plan_probes) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.committed = threading.Condition(self.lock)
        """Notified after every commit."""
        self.streams: dict[str, Stream] = load_streams(directory)
        self.roster = Roster(self.streams)
        self.inventory = Inventory(directory)
        self.max_times: dict[str, int] = {}
        self.next_batch = 0
        self.running: int | None = None
        self._task: BatchTask | None = None
        self._idleness = Idleness()
        self._journal = Journal(directory)
        self.planning = Planning(planner)
        self._recover()

    # ---- requests

    def submit(
        self,
        *,
        create: Sequence[tuple[str | None, BoundQuery]] = (),
        drop: Sequence[QueryId] = (),
        prepare: Prepare = _nothing,
    ) -> Request:
        """Ask for queries to be created (name or None, bound) and dropped together, all or nothing.

        Between batches the request takes effect at once; during a batch it waits for the boundary. `prepare` is called
        when the queries have their ids and are not in effect yet; if it raises, nothing was asked for.
        """
        with self.lock:
            return self._take_up(self.roster.request(create, drop), prepare)

    def set_aside(self, query: QueryId, batch: int, error: str) -> None:
        """End a query whose own expression failed on a row of `batch`; what it had before stays readable."""
        with self.lock:
            request = self.roster.request_end(Failure(query, batch, error))
            if request is not None:
                self._take_up(request)

    def _take_up(self, request: Request, prepare: Prepare = _nothing) -> Request:
        """Put it into effect, unless a batch is running."""
        try:
            prepare(request)
            if self.running is None:
                self._apply_pending()
        except BaseException:
            self.roster.cancel(request)
            raise
        return request

    def add_stream(self, stream: Stream) -> None:
        """Declare a stream; it is in the plan from the next batch on."""
        with self.lock:
            save_stream(self.directory, stream)
            self.streams[stream.name] = stream
            self.planning.forget()

    def _apply_pending(self) -> None:
        """Make all waiting requests one durable changelog entry for the next batch."""
        if self.roster.pending:
            change = self.roster.change(self.next_batch, self.max_times)
            self._journal.write_change(change)
            self._fold_change(change)
            self.roster.acknowledge()

    def _fold_change(self, change: Change) -> None:
        self.inventory.forget_meaning(self.roster.fold(change))
        self.planning.changed(change.batch)

    # ---- the life of a batch

    def begin(self, batch: int, *, partitions: int) -> tuple[Program, BatchTask] | None:
        """What batch `batch` has to do; None if it is committed already."""
        with self.lock:
            if batch == self.next_batch - 1:
                return None
            if batch != self.next_batch:
                raise StateCorrupt(
                    f"Spark is at batch {batch} but the state directory is at batch {self.next_batch}",
                    detail="The checkpoint of the streaming query and weft's own files do not belong together.",
                    hint="Restore both from the same copy, or start with a new path.",
                )
            self._apply_pending()
            self.running = batch
            self._task = self._make_task(batch, partitions)
            return self.program, self._task

    @property
    def plan(self) -> SharedPlan:
        """The shared plan in effect."""
        with self.lock:
            return self.planning.plan(self.roster.live.values(), self.streams, self.inventory.results)

    @property
    def program(self) -> Program:
        """The plan in effect, compiled."""
        with self.lock:
            return self.planning.program(self.plan, self.streams)

    def watermarks(self) -> dict[str, int]:
        """Watermark per stream that has seen data, in microseconds."""
        with self.lock:
            return {name: newest - to_micros(self.streams[name].lateness) for name, newest in self.max_times.items()}

    def _make_task(self, batch: int, partitions: int) -> BatchTask:
        return BatchTask(
            data=str(self.directory.path("data")),
            batch=batch,
            attempt=uuid4().hex[:8],
            partitions=partitions,
            watermarks=self.watermarks(),
            buckets=tuple(self.inventory.buckets.values()),
            masks=dict(self.inventory.masks),
            merges=self.inventory.merges(self.roster.live, self.streams),
            rebuild=to_rebuild(self.plan, self.inventory.complete, batch),
            quarantine=str(self.directory.path("quarantine")),
            closed=dict(self.inventory.closed),
            idle=self._idleness.idle(self.streams),
        )

    def abort(self) -> None:
        """The running batch failed: nothing of it counts; waiting requests take effect now."""
        with self.lock:
            self.running = None
            self._apply_pending()

    def commit(self, batch: int, reports: Sequence[Mapping[str, Any]]) -> Manifest:
        """Make the reported files of a batch exist, then free what nobody can reach any more."""
        with self.lock:
            assert self._task is not None, "a batch is begun before it is committed"
            manifest = gather(batch, reports, self.program, self.roster.live.values())
            manifest = ended_windows(manifest, self.program, self._task)
            self._journal.write_manifest(manifest)
            self._fold_manifest(manifest)
            self.running = None
            self.planning.learn(batch, reports)
            self._idleness.note(name for name, totals in manifest.streams if totals.rows)
            self._collect()
            self.inventory.remove(path for report in reports for path in report.get("spent", ()))
            if batch % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                self.checkpoint()
            self._apply_pending()
            self.committed.notify_all()
            return manifest

    def _fold_manifest(self, manifest: Manifest) -> None:
        self.next_batch = manifest.batch + 1
        for name, totals in manifest.streams:
            if totals.max_time is not None:
                self.max_times[name] = max(totals.max_time, self.max_times.get(name, totals.max_time))
        self.inventory.fold(manifest, self.roster.slots)
        for query, error in manifest.failed:
            self.inventory.forget_meaning(self.roster.end(query, manifest.batch, error))
            self.planning.forget()

    def _collect(self) -> None:
        stored = self.plan.probes.stored
        self.inventory.collect(self.roster.live, self.streams, self.max_times, stored=stored)

    def trim_results(self, before: int) -> None:
        """Forget the results of batches older than `before`."""
        with self.lock:
            self.inventory.trim(before)

    # ---- recovery

    def checkpoint(self) -> None:
        """Sum up the state so that a restart need not read all of history."""
        with self.lock:
            first = self.inventory.results[0].batch if self.inventory.results else self.next_batch
            value = self.roster.to_json() | self.inventory.to_json()
            value |= {"max_times": self.max_times, "first_result": first}
            self._journal.write_checkpoint(self.next_batch - 1, value)
            self._journal.pack()
            self._journal.forget_packs(before=first)

    def _recover(self) -> None:
        last, saved = self._journal.read_checkpoint()
        if saved is not None:
            self.roster.load(saved)
            self.inventory.load(saved)
            self.max_times = saved["max_times"]
            self.next_batch = last + 1
        for entry in self._journal.history(after=last):
            if isinstance(entry, Change):
                self._fold_change(entry)
            elif entry.batch > last:
                self._fold_manifest(entry)
            elif saved is not None and entry.batch >= saved["first_result"]:
                self.inventory.add_result(entry)
        self.inventory.trim_again()
        # What was garbage before the restart is garbage still, and its files are gone: forget it first.
        self._collect()
        self.inventory.forget_incomplete()
        self.inventory.remove_rubbish(self.next_batch)
