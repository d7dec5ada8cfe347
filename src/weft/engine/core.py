"""The one owner of mutable state: queries, slots, watermarks, buckets, the plan in effect.

`Core` knows nothing of Spark: it turns requests into changelogs, says what a batch has to do (`begin`), and takes
what its tasks report (`commit`). Everything it knows it can read back from the state directory.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from weft.engine.registry import load_streams
from weft.engine.reports import gather
from weft.errors import DuplicateQuery, StateCorrupt, UnknownQuery
from weft.optimize.weave import choose_route, sides_of, weave
from weft.plan.changelog import Change, LiveQuery, QueryId, QueryRecord, Slots, free_slots, slots_of
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedPlan, StoreId
from weft.plan.stream import Stream
from weft.plan.window import to_micros
from weft.runtime.task import BatchTask, Program, compile_program
from weft.sql import bind
from weft.state.bucket import Bucket
from weft.state.compaction import choose_merges
from weft.state.directory import Directory
from weft.state.journal import Journal, Manifest, record_from_json, record_to_json
from weft.state.reach import horizons, is_reachable

TICK = 1
CHECKPOINT_EVERY = 50


@dataclass(slots=True)
class Request:
    """Queries to create and drop together; `done` is set when they are in effect."""

    created: tuple[tuple[QueryId, str, BoundQuery], ...]
    dropped: tuple[QueryId, ...]
    asked: float
    done: threading.Event
    latency: float | None = None


class Core:
    """State of an engine, recovered from its directory; all methods are safe to call from any thread."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.journal = Journal(directory)
        self.lock = threading.RLock()
        self.committed_event = threading.Condition(self.lock)
        self.streams: dict[str, Stream] = load_streams(directory)
        self.records: dict[QueryId, QueryRecord] = {}
        self.bound: dict[QueryId, BoundQuery] = {}
        self.live: dict[QueryId, LiveQuery] = {}
        self.names: dict[str, QueryId] = {}
        self.pending: list[Request] = []
        self.max_times: dict[str, int] = {}
        self.buckets: dict[str, Bucket] = {}
        self.masks: dict[int, Slots] = {}
        self.results: list[Manifest] = []
        self.result_refs: Counter[str] = Counter()
        self.next_batch = 0
        self.running: int | None = None
        self._next_id = 0
        self._plan: SharedPlan | None = None
        self._program: Program | None = None
        self._recover()

    # ---- requests

    def submit(
        self, *, create: Sequence[tuple[str | None, BoundQuery]] = (), drop: Sequence[QueryId] = ()
    ) -> Request:
        """Ask for queries to be created (name or None, bound) and dropped together, all or nothing.

        Between batches the request takes effect at once; during a batch it waits for the boundary.
        """
        asked = time.monotonic()
        with self.lock:
            for query in drop:
                if query not in self.live and not self.is_pending(query):
                    raise UnknownQuery(f'query "{query}" is not live', hint="It was dropped or has failed before.")
            self._check_names([name for name, _ in create if name is not None], drop)
            created = []
            for name, bound in create:
                query = self._new_id()
                created.append((query, name or query, bound))
            for query in drop:
                del self.names[self.name_of(query)]
            for query, name, bound in created:
                self.names[name] = query
                self.bound[query] = bound
            request = Request(tuple(created), tuple(drop), asked, threading.Event())
            self.pending.append(request)
            if self.running is None:
                self._apply_pending()
            return request

    def _check_names(self, names: Sequence[str], leaving: Sequence[QueryId]) -> None:
        for name in names:
            if names.count(name) > 1 or (name in self.names and self.names[name] not in leaving):
                raise DuplicateQuery(f'query "{name}" exists already', hint="Drop it first, or choose another name.")

    def _new_id(self) -> QueryId:
        self._next_id += 1
        while f"q{self._next_id}" in self.names:
            self._next_id += 1
        return QueryId(f"q{self._next_id}")

    def is_pending(self, query: QueryId) -> bool:
        """Whether a query waits for its first boundary."""
        with self.lock:
            dropped = any(query in request.dropped for request in self.pending)
            return not dropped and any(query == created for r in self.pending for created, _, _ in r.created)

    def name_of(self, query: QueryId) -> str:
        """The name of a query, live, ended or pending."""
        if query in self.records:
            return self.records[query].name
        return next(name for request in self.pending for created, name, _ in request.created if created == query)

    def add_stream(self, stream: Stream) -> None:
        """A declared stream is in the plan from the next batch on."""
        with self.lock:
            self.streams[stream.name] = stream
            self._plan = self._program = None

    def _apply_pending(self) -> None:
        """Make all waiting requests one changelog entry for the next batch."""
        requests, self.pending = self.pending, []
        if not requests:
            return
        try:
            change = self._change(requests)
            self.journal.write_change(change)
        except BaseException:
            self.pending = requests + self.pending
            raise
        self._fold_change(change)
        now = time.monotonic()
        for request in requests:
            request.latency = now - request.asked
            request.done.set()

    def _change(self, requests: Iterable[Request]) -> Change:
        requests = list(requests)
        asked = [created for request in requests for created in request.created]
        dropped = {query for request in requests for query in request.dropped}
        staying = [live for query, live in self.live.items() if query not in dropped]
        asked = [created for created in asked if created[0] not in dropped]
        slots = free_slots(slots_of(live.slot for live in staying), len(asked))
        records: list[QueryRecord] = []
        for (query, name, bound), slot in zip(asked, slots, strict=True):
            record = QueryRecord(
                id=query,
                name=name,
                sql=bound.sql,
                slot=slot,
                created=self.next_batch,
                start=self._start_of(bound),
                route=choose_route(bound, staying),
            )
            staying.append(LiveQuery(record, bound))
            records.append(record)
        return Change(self.next_batch, tuple(records), tuple(query for query in self.live if query in dropped))

    def _start_of(self, bound: BoundQuery) -> int | None:
        seen = [self.max_times[r.stream] for r in bound.relations if r.stream in self.max_times]
        return max(seen) + TICK if seen else None

    def _fold_change(self, change: Change) -> None:
        for query in change.dropped:
            self._end(query, change.batch, "")
        for record in change.created:
            self.records[record.id] = record
            self.names[record.name] = record.id
            self.live[record.id] = LiveQuery(record, self.bound_query(record.id))
            self._forget_meaning(1 << record.slot)
        self._plan = self._program = None

    def _end(self, query: QueryId, batch: int, error: str) -> None:
        live = self.live.pop(query, None)
        if live is None:
            return
        self.records[query] = replace(live.record, ended=batch, error=error)
        if self.names.get(live.record.name) == query:
            del self.names[live.record.name]
        self._forget_meaning(1 << live.slot)
        self._plan = self._program = None

    def _forget_meaning(self, changed: int) -> None:
        """The changelog-set of a boundary: ANDed into cl(e, now) of every epoch that still has rows."""
        self.masks = {epoch: Slots(mask & ~changed) for epoch, mask in self.masks.items()}

    def bound_query(self, query: QueryId) -> BoundQuery:
        """The bound form of a query, live or ended."""
        if query not in self.bound:
            self.bound[query] = bind(self.records[query].sql, self.streams)
        return self.bound[query]

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
            self.running = batch
            self._apply_pending()
            return self.program, self._task(batch, partitions)

    @property
    def plan(self) -> SharedPlan:
        """The shared plan in effect."""
        with self.lock:
            if self._plan is None:
                self._plan = weave(sorted(self.live.values(), key=lambda live: live.slot), self.streams)
            return self._plan

    @property
    def program(self) -> Program:
        """The plan in effect, compiled."""
        with self.lock:
            if self._program is None:
                self._program = compile_program(self.plan, self.streams)
            return self._program

    def watermarks(self) -> dict[str, int]:
        """Watermark per stream that has seen data, in microseconds."""
        return {name: newest - to_micros(self.streams[name].lateness) for name, newest in self.max_times.items()}

    def _task(self, batch: int, partitions: int) -> BatchTask:
        stored = tuple(self.buckets.values())
        return BatchTask(
            data=str(self.directory.path("data")),
            batch=batch,
            attempt=uuid4().hex[:8],
            partitions=partitions,
            watermarks=self.watermarks(),
            buckets=stored,
            masks=dict(self.masks),
            merges=choose_merges(stored, self._reaches()),
            quarantine=str(self.directory.path("quarantine")),
        )

    def abort(self) -> None:
        """The running batch failed: nothing of it counts; waiting requests take effect now."""
        with self.lock:
            self.running = None
            self._apply_pending()

    def commit(self, batch: int, reports: Sequence[Mapping[str, Any]]) -> Manifest:
        """Make the reported files of a batch exist, then free what nobody can reach any more."""
        with self.lock:
            manifest = gather(batch, reports, self.program, self.live.values())
            self.journal.write_manifest(manifest)
            self._fold_manifest(manifest, live=slots_of(live.slot for live in self.live.values()))
            self.running = None
            self._collect_garbage()
            if batch % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
                self.checkpoint()
            self._apply_pending()
            self.committed_event.notify_all()
            return manifest

    def _fold_manifest(self, manifest: Manifest, *, live: Slots) -> None:
        self.next_batch = manifest.batch + 1
        for name, totals in manifest.streams:
            if totals.max_time is not None:
                self.max_times[name] = max(totals.max_time, self.max_times.get(name, totals.max_time))
        for path in manifest.merged_away:
            self.buckets.pop(path, None)
        self.buckets |= {bucket.path: bucket for bucket in manifest.buckets}
        self.masks[manifest.batch] = live
        for query, error in manifest.failed:
            self._end(query, manifest.batch, error)
        self._add_result(manifest)

    def _add_result(self, manifest: Manifest) -> None:
        self.results.append(manifest)
        self.result_refs.update(manifest.result_files())

    # ---- garbage

    def _sides(self) -> dict[str, tuple[StoreId, ...]]:
        return {
            query: tuple(side.store for side in sides_of(live.query, live.record.route))
            for query, live in self.live.items()
        }

    def _reaches(self) -> dict[StoreId, int | None]:
        """How far back each store is reached, for the choice of merges."""
        reaches: dict[StoreId, int | None] = {}
        for store, limits in horizons(self.live.values(), self._sides(), dict.fromkeys(self.streams, 0)).items():
            oldest = [limit for limit, _ in limits]
            reaches[store] = None if None in oldest else -min(limit for limit in oldest if limit is not None)
        return reaches

    def _collect_garbage(self) -> None:
        limits = horizons(self.live.values(), self._sides(), self.watermarks())
        gone = [
            bucket
            for bucket in self.buckets.values()
            if not is_reachable(bucket, self.masks.get(bucket.epoch, Slots(0)), limits, self._retained_from(bucket))
        ]
        for bucket in gone:
            del self.buckets[bucket.path]
        epochs = {bucket.epoch for bucket in self.buckets.values()}
        self.masks = {epoch: mask for epoch, mask in self.masks.items() if epoch in epochs}
        merged = self.results[-1].merged_away if self.results else ()
        self._unlink([*(bucket.path for bucket in gone), *merged])

    def _retained_from(self, bucket: Bucket) -> int | None:
        store = next((store for store in self.plan.stores if store.id == bucket.store), None)
        if store is None:
            return None
        retain, newest = self.streams[store.stream].retain, self.max_times.get(store.stream)
        return None if retain is None or newest is None else newest - to_micros(retain)

    def _unlink(self, paths: Iterable[str]) -> None:
        for name in paths:
            if name not in self.buckets and not self.result_refs[name]:
                path = self.directory.path("data", *name.split("/"))
                path.unlink(missing_ok=True)
                try:
                    path.parent.rmdir()
                except OSError:
                    continue

    def trim_results(self, before: int) -> None:
        """Forget the results of batches older than `before` and free what only they needed."""
        with self.lock:
            old = [manifest for manifest in self.results if manifest.batch < before]
            self.results = self.results[len(old) :]
            for manifest in old:
                files = manifest.result_files()
                self.result_refs.subtract(files)
                self._unlink(files)
            self.result_refs += Counter()

    # ---- recovery

    def checkpoint(self) -> None:
        """Sum up the state so that a restart need not read all of history."""
        with self.lock:
            last = self.next_batch - 1
            self.journal.write_checkpoint(
                last,
                {
                    "next_id": self._next_id,
                    "max_times": self.max_times,
                    "records": [record_to_json(record) for record in self.records.values()],
                    "buckets": [bucket.to_json() for bucket in self.buckets.values()],
                    "masks": {str(epoch): hex(mask) for epoch, mask in self.masks.items()},
                    "first_result": self.results[0].batch if self.results else self.next_batch,
                },
            )
            self.journal.pack()

    def _recover(self) -> None:
        last, saved = self.journal.read_checkpoint()
        first_result = 0
        if saved is not None:
            self._next_id = saved["next_id"]
            self.max_times = saved["max_times"]
            self.records = {QueryId(value["id"]): record_from_json(value) for value in saved["records"]}
            self.buckets = {value["path"]: Bucket.from_json(value) for value in saved["buckets"]}
            self.masks = {int(epoch): Slots(int(mask, 16)) for epoch, mask in saved["masks"].items()}
            first_result = saved["first_result"]
            self.next_batch = last + 1
            for query, record in self.records.items():
                if record.ended is None:
                    self.live[query] = LiveQuery(record, self.bound_query(query))
                    self.names[record.name] = query
        changes = list(self.journal.changes(after=last))
        for manifest in self.journal.manifests():
            if manifest.batch <= last:
                if manifest.batch >= first_result:
                    self._add_result(manifest)
                continue
            if manifest.batch != self.next_batch:
                raise StateCorrupt(
                    f"manifest of batch {self.next_batch} is missing", hint="Restore the state directory from a copy."
                )
            while changes and changes[0].batch <= manifest.batch:
                self._fold_change(changes.pop(0))
            self._fold_manifest(manifest, live=slots_of(live.slot for live in self.live.values()))
        for change in changes:
            self._fold_change(change)
        self._next_id = max([self._next_id, *(int(query[1:]) for query in self.records)])
        self._remove_rubbish()

    def _remove_rubbish(self) -> None:
        """Files that no manifest names are leftovers of batches that never were."""
        known = set(self.buckets) | set(self.result_refs)
        for batch, folder in self.directory.numbered("data"):
            if batch >= self.next_batch:
                self.directory.remove_tree("data", folder.name)
                continue
            for path in folder.iterdir():
                if f"{folder.name}/{path.name}" not in known:
                    path.unlink(missing_ok=True)
