"""Copies of an engine's state for the service, the command line and benchmarks, made under the core's lock.

Nothing here hands out the lock or a value that changes later, so no reader can hold up a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.engine.core import Core
from weft.engine.queries.look import page_of
from weft.engine.results.leases import Lease, kept_from
from weft.engine.views.plan_text import Flows, explain_plan
from weft.engine.views.usage import state_bytes
from weft.engine.views.what_if import Sees, WhatIf, what_if
from weft.execution.results.read import Reading, plan_reading
from weft.plan.changelog import LiveQuery, QueryId, QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.shared import SharedPlan
from weft.plan.stream import Stream
from weft.storage.bucket import Bucket
from weft.storage.directory import Directory
from weft.storage.manifests import Manifests


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """How many queries there are: live, waiting for a boundary, and failed since the state directory exists."""

    live: int
    pending: int
    failed: int


@dataclass(frozen=True, slots=True)
class Commits:
    """Committed batches. Their result files stay until the lease is released."""

    manifests: Manifests
    flows: Flows
    """The flows through the probe steps of the last batch."""
    lease: Lease


class Snapshots:
    """Consistent copies of what a core knows; the methods may be called from any thread."""

    def __init__(self, core: Core) -> None:
        self.core = core
        """The owner of the state, for modules of `weft.engine` only."""

    @property
    def directory(self) -> Directory:
        """The state directory."""
        return self.core.directory

    @property
    def next_batch(self) -> int:
        """The number of the next batch to be committed."""
        return self.core.next_batch

    @property
    def running_batch(self) -> int | None:
        """The number of the batch that runs now."""
        return self.core.running

    @property
    def first_kept_batch(self) -> int:
        """The first batch whose results can be read."""
        return kept_from(self.core)

    # ---- streams and queries

    def declared_streams(self) -> dict[str, Stream]:
        """Return the declared streams, by name."""
        return self.core.declared()

    def watermarks(self) -> dict[str, int]:
        """Return the watermark of each stream that has seen rows, in microseconds."""
        return self.core.watermarks()

    def live_queries(self) -> dict[QueryId, LiveQuery]:
        """Return the live queries."""
        with self.core.lock:
            return dict(self.core.roster.live)

    def names(self) -> dict[str, QueryId]:
        """Return the names of the live and pending queries."""
        with self.core.lock:
            return dict(self.core.roster.names)

    def names_ever(self, prefix: str) -> list[str]:
        """Return the names that live, pending and ended queries have or had; of ended queries those with a prefix."""
        roster = self.core.roster
        with self.core.lock:
            names = [*roster.names, *(record.name for record in roster.records.lately.values())]
        return names + roster.ended.names(prefix)

    def count_queries(self, sees: Sees, prefix: str) -> QueryCounts:
        """Count the queries that somebody may see; the names of all of them begin with `prefix`."""
        roster = self.core.roster
        with self.core.lock:
            live = sum(sees(query.record.name) for query in roster.live.values())
            pending = sum(sees(name) for request in roster.pending for _, name, _ in request.created)
            failed = roster.records.failed_lately(prefix)
        return QueryCounts(live, pending, failed + roster.ended.failed(prefix))

    def records(self, prefix: str, *, after: int, limit: int, live: bool, latest: bool) -> list[QueryRecord]:
        """Return a page of the records of ended queries, and with `live` also of live queries, by their numbers."""
        return page_of(self.core, prefix, after=after, limit=limit, live=live, latest=latest)

    def is_new(self, query: QueryId, since: int) -> bool:
        """Return whether a query is pending or was created in batch `since` or later. Nothing is read from disk."""
        record = self.core.roster.records.here(query)
        return self.core.roster.is_pending(query) if record is None else record.created >= since

    # ---- the plan

    @property
    def plan(self) -> SharedPlan:
        """The shared plan in effect."""
        return self.core.plan

    def flows(self) -> Flows:
        """Return the flows through the probe steps of the last batch."""
        return dict(self.core.planning.flows)

    def explain(self) -> str:
        """Return the shared plan as text."""
        return explain_plan(self.plan, self.declared_streams(), self.flows())

    def what_if(self, query: BoundQuery, *, sees: Sees | None = None) -> WhatIf:
        """Return what creating a query would add to the plan, described for somebody who sees only some queries."""
        return what_if(self.core, query, sees=sees)

    def state_bytes(self) -> dict[QueryId, float]:
        """Return the bytes of state that each live query needs; shared bytes are divided among the queries."""
        return state_bytes(self.core)

    def buckets(self) -> list[Bucket]:
        """Return the buckets of the state that live queries can still reach."""
        with self.core.lock:
            return list(self.core.inventory.buckets.values())

    def state_files(self) -> list[Path]:
        """Return the files of the state that live queries can still reach; result files are not among them."""
        core = self.core
        with core.lock:
            buckets, data = core.inventory.buckets, core.directory.path("data")
            names = {*buckets, *(name for bucket in buckets.values() for name in bucket.refs), *core.inventory.open}
        return [data / name for name in names]

    # ---- results

    def commits_from(self, batch: int, *, wait: float = 0.0) -> Commits:
        """Return the committed batches from `batch` on; if there are none, wait up to `wait` seconds for a commit."""
        core = self.core
        with core.lock:
            if wait and core.next_batch <= batch:
                core.committed.wait(wait)
            return Commits(core.inventory.results_of(batch), dict(core.planning.flows), core.leases.take(batch))

    def hold_results(self, first: int, *, seconds: float | None = None) -> Lease:
        """Keep the result files of batch `first` and later ones until the lease is released or expires."""
        with self.core.lock:
            return self.core.leases.take(first, seconds=seconds)

    def wake(self) -> None:
        """Wake everybody who waits for a commit, for example because a follower stops."""
        with self.core.lock:
            self.core.committed.notify_all()

    def readings(self, batch: int, queries: Mapping[QueryId, LiveQuery]) -> dict[QueryId, Reading]:
        """Return, for each of the queries that was live in a batch, how to read its rows."""
        core = self.core
        with core.lock:
            data, streams = str(core.directory.path("data")), dict(core.streams)
            records = {query: core.roster.records.here(query) for query in queries}
        for query in [query for query, record in records.items() if record is None]:
            records[query] = core.roster.records.on_disk(query)  # not under the lock: the disk may be slow
        readings: dict[QueryId, Reading] = {}
        for query, live in queries.items():
            record = records[query]  # None if the record was removed together with a stream of the query
            if record is not None and record.created <= batch and (record.ended is None or batch < record.ended):
                readings[query] = plan_reading(record, live.query, live.strategy, streams, data=data)
        return readings
