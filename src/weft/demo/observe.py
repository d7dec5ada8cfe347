"""What the view shows, gathered from the engine: only read, and cheaply."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median

from weft.demo.count import RowCounter, Rows
from weft.demo.ledger import Ledger
from weft.engine import Engine, Query
from weft.plan.changelog import QueryRecord
from weft.plan.shared import SharedPlan, key_text
from weft.state.journal import Manifest

_RECENT = 5
"""Batches over which rates are taken."""

_REMEMBERED = 120
_SHOWN_AFTER_END = timedelta(seconds=4)


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """A stream since the start and lately."""

    name: str
    rows: int
    rows_per_second: float
    late: int
    watermark: datetime | None


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """A query as a line of the view; `rows` is None until they are counted."""

    name: str
    sql: str
    state: str
    age: timedelta
    complete_from: datetime | None
    rows: Rows | None


@dataclass(frozen=True, slots=True)
class Sharing:
    """What is shared now, and what has been saved so far."""

    stores: tuple[tuple[str, int], ...]
    joins: tuple[tuple[str, int], ...]
    rows_read: int
    rows_apart: int


@dataclass(frozen=True, slots=True)
class Latency:
    """Of batches: wall time; and from the event time of their newest row to its committed results."""

    batches: tuple[float, ...]
    events: tuple[float, ...]
    deployments: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the view shows at one moment."""

    elapsed: timedelta
    duration: timedelta | None
    batch: int
    streams: tuple[StreamFigures, ...]
    queries: tuple[QueryFigures, ...]
    live: int
    created: int
    ended: int
    sharing: Sharing
    latency: Latency


class Observer:
    """Follows an engine batch by batch."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._counter = RowCounter()
        self._handles: dict[str, tuple[Query, float]] = {}
        self._ended: dict[str, float] = {}
        self._next = 0
        self._recent: deque[Manifest] = deque(maxlen=_RECENT + 1)
        self._rows: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._rows_apart = 0
        self._created = 0
        self._batch_seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._event_seconds: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def rows(self) -> int:
        """Rows read so far, of all streams."""
        return self._rows.total()

    @property
    def next_batch(self) -> int:
        """The first batch not seen yet."""
        return self._next

    def add(self, queries: Iterable[Query]) -> None:
        """Queries were created."""
        for query in queries:
            self._handles[query.name] = (query, time.monotonic())
            self._created += 1

    def poll(self) -> None:
        """Take in the batches committed since the last time."""
        core = self._engine.core
        with core.lock:
            fresh = [manifest for manifest in list(core.results)[-_REMEMBERED:] if manifest.batch >= self._next]
            records = [record for record in core.records.values() if fresh and _lived(record, fresh[0].batch)]
            streams_of = {r.id: {relation.stream for relation in core.bound_query(r.id).relations} for r in records}
        summaries = {summary.batch: summary for summary in list(self._engine.summaries)[-_REMEMBERED:]}
        for manifest in fresh:
            rows = {name: totals.rows for name, totals in manifest.streams}
            self._ledger.note(manifest.batch, rows)
            self._rows.update(rows)
            self._late.update({name: totals.late for name, totals in manifest.streams})
            living = [record for record in records if record.created <= manifest.batch and _lived(record, manifest.batch)]
            self._rows_apart += sum(rows.get(stream, 0) for record in living for stream in streams_of[record.id])
            newest = [totals.max_time for _, totals in manifest.streams if totals.max_time is not None]
            if newest and manifest.batch:
                self._event_seconds.append(manifest.at - max(newest) / 1_000_000)
            if manifest.batch in summaries and manifest.batch:
                self._batch_seconds.append(sum(summaries[manifest.batch].seconds.values()))
            self._recent.append(manifest)
            self._next = manifest.batch + 1

    def count(self, names: Sequence[str], *, seconds: float) -> None:
        """Count result rows of some queries, for about so long; the longest uncounted first."""
        handles = [self._handles[name][0] for name in names if name in self._handles]
        self._counter.count(handles, self._next, seconds=seconds)

    def figures(self, elapsed: timedelta, duration: timedelta | None) -> Figures:
        """The state of things."""
        queries = self._queries()
        with self._engine.core.lock:
            plan = self._engine.core.plan
            watermarks = self._engine.core.watermarks()
        waits = [query.deployment_latency for query, _ in self._handles.values()]
        live = sum(query.state in ("pending", "live") for query in queries)
        return Figures(
            elapsed=elapsed,
            duration=duration,
            batch=self._next - 1,
            streams=self._streams(watermarks),
            queries=queries,
            live=live,
            created=self._created,
            ended=self._created - live,
            sharing=_sharing(plan, self._rows.total(), self._rows_apart),
            latency=Latency(
                tuple(self._batch_seconds),
                tuple(self._event_seconds),
                tuple(wait.total_seconds() for wait in waits if wait is not None),
            ),
        )

    def _streams(self, watermarks: Mapping[str, int]) -> tuple[StreamFigures, ...]:
        seconds = self._recent[-1].at - self._recent[0].at if len(self._recent) > 1 else 0.0
        lately: Counter[str] = Counter()
        for manifest in list(self._recent)[1:]:
            lately.update({name: totals.rows for name, totals in manifest.streams})
        return tuple(
            StreamFigures(
                name,
                self._rows[name],
                lately[name] / seconds if seconds else 0.0,
                self._late[name],
                _instant(watermarks[name]) if name in watermarks else None,
            )
            for name in self._engine.core.streams
        )

    def _queries(self) -> tuple[QueryFigures, ...]:
        """Newest first; those that ended a moment ago are still there."""
        now, shown = time.monotonic(), []
        for name, (query, since) in reversed(self._handles.items()):
            state = query.state
            if state in ("dropped", "failed"):
                ended = self._ended.setdefault(name, now)
                if now - ended > _SHOWN_AFTER_END.total_seconds():
                    continue
            age = timedelta(seconds=now - since)
            shown.append(QueryFigures(name, query.sql, state, age, query.complete_from, self._counter.of(name)))
        return tuple(shown)


def _lived(record: QueryRecord, batch: int) -> bool:
    return record.ended is None or record.ended > batch


def _instant(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def _sharing(plan: SharedPlan, rows_read: int, rows_apart: int) -> Sharing:
    stores = [
        (f"{store.stream} {f'by {_plain(key_text(store.route))}' if store.route else 'selected'}", store.slots.bit_count())
        for store in plan.stores
    ]
    joins = []
    for join in plan.joins:
        left, right = plan.store(join.left), plan.store(join.right)
        key = next(index.key for index in left.indexes if index.id == join.left_index)
        joins.append((f"{left.stream} ⋈ {right.stream} on {_plain(key_text(key))}", join.slots.bit_count()))
    return Sharing(_by_size(stores), _by_size(joins), rows_read, rows_apart)


def _by_size(parts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(parts, key=lambda part: (-part[1], part[0])))


def _plain(text: str) -> str:
    return text.replace("`", "")


def typical(values: Sequence[float]) -> float:
    """The median; 0 of nothing."""
    return median(values) if values else 0.0
