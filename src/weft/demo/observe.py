"""What the view shows, gathered from the engine: only read, and cheaply."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from weft.demo.count import Counted, RowCounter
from weft.demo.ledger import Ledger
from weft.demo.peek import batches_from, plan_and_watermarks
from weft.demo.workload import DemoQuery
from weft.engine import Engine, Query
from weft.plan.key import key_text
from weft.plan.shared import SharedPlan, Store
from weft.plan.time import to_datetime
from weft.storage.journal import Manifest

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
    """A query as a line of the view; `rows` is None when they are not counted."""

    name: str
    brief: str
    state: str
    age: timedelta
    complete_from: datetime | None
    rows: Counted | None


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
    result_rows: int | None
    sharing: Sharing
    latency: Latency


class Observer:
    """Follows an engine batch by batch."""

    def __init__(self, engine: Engine, ledger: Ledger) -> None:
        self._engine = engine
        self._ledger = ledger
        self._counter = RowCounter()
        self._shown: dict[str, _Shown] = {}
        self._next = 0
        self._recent: deque[Manifest] = deque(maxlen=_RECENT + 1)
        self._rows: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._rows_apart = 0
        self._created = 0
        self._batch_seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._event_seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._deployments: deque[float] = deque(maxlen=_REMEMBERED)

    @property
    def rows(self) -> int:
        """Rows read so far, of all streams."""
        return self._rows.total()

    @property
    def next_batch(self) -> int:
        """The first batch not seen yet."""
        return self._next

    def add(self, asked: DemoQuery, query: Query) -> None:
        """A query was created."""
        self._shown[query.name] = _Shown(asked.brief, query, time.monotonic())
        self._created += 1

    def poll(self) -> None:
        """Take in the batches committed since the last time."""
        fresh, readers = batches_from(self._engine, self._next)
        self._counter.add(fresh)
        summaries = {summary.batch: summary for summary in list(self._engine.summaries)[-_REMEMBERED:]}
        for manifest in fresh:
            rows = {name: totals.rows for name, totals in manifest.streams}
            self._ledger.note(manifest.batch, rows)
            self._rows.update(rows)
            self._late.update({name: totals.late for name, totals in manifest.streams})
            reading = [reader.streams for reader in readers if reader.was_live(manifest.batch)]
            self._rows_apart += sum(rows.get(stream, 0) for streams in reading for stream in streams)
            newest = [totals.max_time for _, totals in manifest.streams if totals.max_time is not None]
            if newest and manifest.batch:
                self._event_seconds.append(manifest.at - max(newest) / 1_000_000)
            if manifest.batch in summaries and manifest.batch:
                self._batch_seconds.append(sum(summaries[manifest.batch].seconds.values()))
            self._recent.append(manifest)
            self._next = manifest.batch + 1

    def count(self, *, seconds: float) -> None:
        """Count result rows for about so long."""
        readings = {name: shown.query.read(0, 0)[0] for name, shown in self._shown.items()}
        self._counter.count(readings, seconds=seconds)

    def figures(self, elapsed: timedelta, duration: timedelta | None) -> Figures:
        """The state of things."""
        queries = self._queries()
        plan, watermarks = plan_and_watermarks(self._engine)
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
            result_rows=None if self._counter.gave_up else self._counter.total,
            sharing=_sharing(plan, self._rows.total(), self._rows_apart),
            latency=Latency(tuple(self._batch_seconds), tuple(self._event_seconds), tuple(self._deployments)),
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
                to_datetime(watermarks[name]) if name in watermarks else None,
            )
            for name in (stream.name for stream in self._engine.streams())
        )

    def _queries(self) -> tuple[QueryFigures, ...]:
        """Newest first; those that ended a moment ago are still there."""
        now = time.monotonic()
        lines = []
        for name, shown in reversed(list(self._shown.items())):
            shown.look(now, self._deployments)
            if shown.ended is not None and now - shown.ended > _SHOWN_AFTER_END.total_seconds():
                if not self._counter.behind:
                    del self._shown[name]
                continue
            age = timedelta(seconds=now - shown.since)
            start = shown.query.complete_from
            lines.append(QueryFigures(name, shown.brief, shown.state, age, start, self._counter.of(name)))
        return tuple(lines)


@dataclass(slots=True)
class _Shown:
    """A query from its creation until it is no longer shown."""

    brief: str
    query: Query
    since: float
    state: str = "pending"
    ended: float | None = None

    def look(self, now: float, deployments: deque[float]) -> None:
        before, self.state = self.state, self.query.state
        wait = self.query.deployment_latency
        if before == "pending" != self.state and wait is not None:
            deployments.append(wait.total_seconds())
        if self.state in ("dropped", "failed") and self.ended is None:
            self.ended = now


def _sharing(plan: SharedPlan, rows_read: int, rows_apart: int) -> Sharing:
    stores = [(_store_text(store), store.slots.bit_count()) for store in plan.stores]
    joins = []
    for join in plan.joins:
        left, right = plan.store(join.left), plan.store(join.right)
        key = next(index.key for index in left.indexes if index.id == join.left_index)
        joins.append((f"{left.stream} ⋈ {right.stream} on {_plain(key_text(key))}", join.slots.bit_count()))
    return Sharing(_by_size(stores), _by_size(joins), rows_read, rows_apart)


def _store_text(store: Store) -> str:
    role = " (self-joins)" if store.role else ""
    return f"{store.stream}{role} {f'by {_plain(key_text(store.route))}' if store.route else 'selected'}"


def _by_size(parts: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(parts, key=lambda part: (-part[1], part[0])))


def _plain(text: str) -> str:
    return text.replace("`", "")
