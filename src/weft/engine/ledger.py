"""The state of an engine: loaded from its state directory, and changed only by folding in changes and manifests.

There are three locks, always taken in this order. `_changing` is held while the state changes, including planning and
flushing. `_planning_lock` is held while a plan is made. `lock` guards the state in memory and is held only for
moments: never while solving, compiling, writing, or calling code that is not the engine's own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from uuid import uuid4

from weft.engine.batches.reports import RATE_BATCHES, note_times
from weft.engine.inputs.clocks import Clocks
from weft.engine.inputs.set_watermark import newest_after
from weft.engine.inputs.stream_store import load_streams
from weft.engine.planning import Planned, Planning, to_rebuild
from weft.engine.queries.roster import Roster
from weft.engine.results.inventory import Inventory
from weft.engine.results.leases import Leases, first_result
from weft.execution.program import BatchInputs, BatchTask, Program
from weft.execution.watermark import advance
from weft.plan.changelog import Change, Failure, QueryId
from weft.plan.shared import SharedPlan
from weft.plan.stream import Stream
from weft.planner.joins.planners import Planner, plan_probes
from weft.storage.directory import Directory
from weft.storage.ended_queries import EndedQueries
from weft.storage.journal import Journal, Manifest
from weft.storage.seen_files import SeenFiles
from weft.storage.state_errors import missing

_log = logging.getLogger("weft")


class Ledger:
    """The streams, queries, files and plans of an engine, as of the last change and the last batch."""

    def __init__(self, directory: Directory, *, planner: Planner = plan_probes) -> None:
        self.directory = directory
        self.lock = threading.RLock()
        self.committed = threading.Condition(self.lock)
        """Notified after every commit, and when a batch is given up."""
        self._changing = threading.RLock()
        self._planning_lock = threading.RLock()
        self.streams: dict[str, Stream] = load_streams(directory)
        self.roster = Roster(self.streams, EndedQueries(directory))
        self._journal = Journal(directory)
        self.inventory, self.leases = Inventory(directory, self._journal), Leases()
        self.files = SeenFiles(directory)
        self.offsets: dict[str, int] = {}
        """By DataFrame stream, the last Spark micro-batch whose rows are committed."""
        self.max_times: dict[str, int] = {}
        self.next_batch = 0
        self._summed_up = 0
        """The first batch that the last checkpoint does not cover."""
        self.running: int | None = None
        self._task: BatchTask | None = None
        self._program: Program | None = None
        """The program of the running batch."""
        self._has_garbage = False
        self.clocks = Clocks()
        self.planning = Planning(planner)
        self._recover()

    # ---- reading

    def watermarks(self) -> dict[str, int]:
        """Return the watermark of each stream that has seen rows, in microseconds."""
        with self.lock:
            return advance(self.streams, {}, self.max_times)

    def declared(self) -> dict[str, Stream]:
        """Return a copy of the declared streams, by name."""
        with self.lock:
            return dict(self.streams)

    def readers_of(self, stream: str) -> dict[QueryId, str]:
        """Return the live and pending queries that read a stream, with their names."""
        with self.lock:
            return self.roster.readers_of(stream)

    def needed_streams(self) -> dict[str, Stream]:
        """Return the streams that live queries read; the input of other streams is left unread."""
        with self.lock:
            names = {relation.stream for live in self.roster.live.values() for relation in live.query.relations}
            return {name: self.streams[name] for name in sorted(names) if name in self.streams}

    def waiting_drops(self, seconds: float) -> bool:
        """Return whether a request to drop a query has waited longer than `seconds`."""
        with self.lock:
            oldest = time.monotonic() - seconds
            return any(request.dropped and request.asked < oldest for request in self.roster.pending)

    @property
    def plan(self) -> SharedPlan:
        """The shared plan in effect."""
        return self.planned().plan

    @property
    def program(self) -> Program:
        """The compiled form of the plan in effect."""
        return self.planned().program

    def planned(self) -> Planned:
        """Return the plan in effect, making it if necessary. Planning is slow, so the caller must not hold `lock`."""
        assert not self.lock._is_owned(), "whoever holds the lock must not wait for a plan"  # type: ignore[attr-defined]
        with self._planning_lock:
            while True:
                with self.lock:
                    if (current := self.planning.current) is not None:
                        return current
                    version = self.planning.version
                    live, streams = list(self.roster.live.values()), dict(self.streams)
                    results = self.inventory.results[-RATE_BATCHES:]
                planned = self.planning.make(live, streams, results)
                with self.lock:
                    if self.planning.version == version:
                        return self.planning.adopt(planned)

    def _make_task(self, batch: int, partitions: int, plan: SharedPlan, inputs: BatchInputs) -> BatchTask:
        return BatchTask(
            data=str(self.directory.path("data")),
            batch=batch,
            attempt=uuid4().hex[:8],
            partitions=partitions,
            watermarks=self.watermarks(),
            buckets=tuple(self.inventory.buckets.values()),
            masks=dict(self.inventory.masks),
            merges=self.inventory.merges(self.roster.live, self.streams),
            rebuild=to_rebuild(plan, self.inventory.complete, batch),
            quarantine=str(self.directory.path("quarantine")),
            closed=dict(self.inventory.closed),
            idle=self.clocks.idle(self.streams) - inputs.failing,
            ahead=self.clocks.ahead_limits(self.streams),
            inputs=inputs,
        )

    # ---- folding

    def _fold_change(self, change: Change) -> None:
        self.inventory.forget_meaning(self.roster.fold(change, self.max_times))
        self.inventory.reopen(stream for stream, _ in change.watermarks)
        self.max_times |= newest_after(change, self.streams)
        self.planning.changed(change.batch)
        self._has_garbage = self._has_garbage or bool(change.dropped)

    def _fold_manifest(self, manifest: Manifest) -> list[str]:
        """Put a committed batch into effect and return the files that are no longer needed."""
        self.next_batch = manifest.batch + 1
        note_times(manifest, self.max_times)
        for name, files in manifest.files:
            self.files.add(name, files)
        self.offsets |= dict(manifest.offsets)
        obsolete = self.inventory.fold(manifest, self.roster.slots)
        for query, error in manifest.failed:
            self.inventory.forget_meaning(self.roster.end(query, manifest.batch, error))
            self.planning.forget()
        return obsolete

    def _collect(self) -> None:
        stored = self.plan.probes.stored
        self._has_garbage = False
        with self.lock:
            self.inventory.collect(self.roster.live, self.streams, self.max_times, stored=stored)

    # ---- recovery

    def checkpoint(self) -> None:
        """Write a checkpoint of the state, so that a restart need not read the whole journal."""
        with self._changing:
            first = first_result(self)
            self.roster.records.settle(self.lock, first)
            with self.lock:
                value = self.roster.to_json() | self.inventory.to_json()
                value |= {"max_times": dict(self.max_times), "offsets": dict(self.offsets)}
                value |= {"streams": sorted(self.streams)}
            value["files"] = self.files.save()
            self._journal.write_checkpoint(self.next_batch, value, first=first, small=self.inventory.small_files)
            self._summed_up = self.next_batch
            self.files.remove_old()

    def _recover(self) -> None:
        last, saved = self._journal.read_checkpoint()
        if saved is not None:
            self._check_declared(saved["streams"])
            self.roster.load(saved)
            self.inventory.load(saved)
            self.inventory.begin(saved["first_result"], last + 1)
            self.inventory.trim(self._journal.trimmed)
            self.max_times = saved["max_times"]
            self.offsets = saved["offsets"]
            self.files.load(saved["files"])
            self.next_batch = self._summed_up = last + 1
        obsolete: list[str] = []
        for entry in self._journal.history(after=last):
            if isinstance(entry, Change):
                self._check_declared(entry.declared)
                self._fold_change(entry)
            else:
                obsolete += self._fold_manifest(entry)
        self._end_refused()
        # The journal is now known to be complete, so files that it does not name are garbage.
        self.inventory.folder.remove(obsolete)
        self.inventory.trim(self._journal.trimmed)
        self._collect()
        for manifest in self.inventory.results_of(last + 1):
            self.inventory.folder.remove_unnamed(manifest)
        self.inventory.folder.remove_uncommitted(self.next_batch)

    def _end_refused(self) -> None:
        """End queries that this release refuses, durably and as failed, so that their state can be freed."""
        failed = tuple(Failure(query, self.next_batch, why) for query, (_, why) in self.roster.refused.items())
        if failed:
            change = Change(self.next_batch, (), tuple(self.roster.refused), failed)
            self._journal.write_change(change)
            self._fold_change(change)
            for failure in failed:
                _log.error('query "%s" failed: %s', self.roster.name_of(failure.query), failure.error)

    def _check_declared(self, streams: Sequence[str]) -> None:
        """Raise StateCorrupt if the file of a declared stream is missing, because its queries would fail without it."""
        for name in streams:
            if name not in self.streams:
                raise missing(f"streams/{name}.json")
