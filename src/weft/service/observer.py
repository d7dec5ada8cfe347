"""The figures of an engine that the service shows: the last batches, per stream, operator and query.

A thread follows the commits and only reads. If it cannot keep up, it counts fewer batches and delays none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.engine import BatchSummary, Engine
from weft.engine.catalog import Catalog
from weft.engine.results.counts import count_rows
from weft.engine.views.operator_rates import rates_through, rows_through
from weft.errors import ResultsGone
from weft.execution.results.read import Reading
from weft.plan.changelog import LiveQuery, QueryId
from weft.storage.journal import Manifest
from weft.storage.manifests import Manifests

_log = logging.getLogger("weft.service")
KEPT_BATCHES = 120
KEPT_POINTS = 60
KEPT_COUNTS = 30
KEPT_ENDED = 200
"""Number of ended queries whose figures are kept."""
MOST_PAIRS = 20_000_000
"""Maximum number of pairs in a batch whose result rows are counted, since they are read together."""
RECENT = 5
"""Number of batches over which rates are computed."""
_PATIENCE = 0.5
_SHARE = 0.2
"""Maximum share of the time that counting result rows may take."""


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """The figures of one batch."""

    batch: int
    at: float
    rows: int
    seconds: float
    phases: Mapping[str, float]
    rows_per_second: float
    latency: float | None
    queries: int


@dataclass(frozen=True, slots=True)
class Point:
    """The figures of a query in one batch."""

    at: float
    rows_per_second: float
    latency: float | None


@dataclass(slots=True)
class QueryFigures:
    """The figures of a query since the service first saw it; `rows` is None if some batch was not counted."""

    rows: int | None = 0
    rows_per_second: float = 0.0
    latency: float | None = None
    points: deque[Point] = field(default_factory=lambda: deque(maxlen=KEPT_POINTS))


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """The totals of a stream since the service started, and its recent rate."""

    rows: int
    rows_per_second: float
    late: int
    bad_files: int
    ahead: int = 0
    missed: int = 0
    bad_rows: int = 0


@dataclass(frozen=True, slots=True)
class Counted:
    """Result rows of the live queries in one batch (None: not counted), and rows `through` each operator."""

    batch: int
    queries: Mapping[QueryId, int | None]
    through: Mapping[str, int]


def observe(engine: Engine, on_batch: Callable[[], None]) -> Observer:
    """Return an observer of a running engine. The caller starts it."""
    return Observer(engine.catalog, summaries=lambda: engine.summaries, on_batch=on_batch)


class Observer:
    """A follower of the commits of an engine. Its figures may be read from any thread."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        summaries: Callable[[], Iterable[BatchSummary]],
        on_batch: Callable[[], None] = lambda: None,
    ) -> None:
        """`summaries` returns the last batches with their durations, which the state directory does not contain."""
        self._catalog, self._summaries = catalog, summaries
        self._on_batch = on_batch
        self._lock = threading.Lock()
        self._first = self._seen = catalog.next_batch
        self._batches: deque[BatchFigures] = deque(maxlen=KEPT_BATCHES)
        self._through: deque[tuple[float, Mapping[str, int]]] = deque(maxlen=RECENT + 1)
        self._counted: deque[Counted] = deque(maxlen=KEPT_COUNTS)
        self._queries: dict[QueryId, QueryFigures] = {}
        self._streams: dict[str, Counter[str]] = {}
        self._live: dict[QueryId, LiveQuery] = {}
        self._busy = 0.0
        self._began = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-observer", daemon=True)

    def start(self) -> None:
        """Start following the commits."""
        self._thread.start()

    def stop(self) -> None:
        """Stop following the commits."""
        self._stop.set()
        self._catalog.wake()
        self._thread.join(_PATIENCE * 4)

    # ---- what it has seen

    def batches(self) -> list[BatchFigures]:
        """Return the figures of the last batches, newest last."""
        with self._lock:
            self._fill_in()
            return list(self._batches)

    def _fill_in(self) -> None:
        """Add the durations of batches that were seen before their summaries existed, a moment after the commit."""
        untimed = {figures.batch: index for index, figures in enumerate(self._batches) if not figures.phases}
        for summary in tuple(self._summaries()) if untimed else ():
            if summary.batch in untimed:
                index = untimed[summary.batch]
                self._batches[index] = _timed(self._batches[index], summary)

    def query(self, query: QueryId) -> QueryFigures:
        """Return the figures of a query."""
        with self._lock:
            figures = self._queries.get(query) or self._unseen(query)
            return QueryFigures(figures.rows, figures.rows_per_second, figures.latency, figures.points.copy())

    def _unseen(self, query: QueryId) -> QueryFigures:
        """Return the initial figures of a query. Its rows are unknown if it began before the service started or ended
        long ago: nothing is read from disk."""
        return QueryFigures(rows=0 if self._catalog.is_new(query, self._first) else None)

    def stream(self, name: str) -> StreamFigures:
        """Return the figures of a stream."""
        with self._lock:
            totals = self._streams.get(name, Counter())
            rate = rates_through(list(self._through)).get(f"stream:{name}", 0.0)
        rows, late, bad = totals["rows"], totals["late"], totals["bad_files"]
        return StreamFigures(rows, rate, late, bad, totals["ahead"], totals["missed"], totals["bad_rows"])

    def counted(self) -> list[Counted]:
        """Return the result rows of the last batches, newest last."""
        with self._lock:
            return list(self._counted)

    def rates(self) -> dict[str, float]:
        """Return the rows per second through each operator, by operator id."""
        with self._lock:
            return rates_through(list(self._through))

    # ---- what its thread does

    def _run(self) -> None:
        while not self._stop.is_set():
            commits = self._catalog.commits_from(self._seen, wait=_PATIENCE)
            with commits.lease:
                if commits.manifests and not self._stop.is_set():
                    self._try_to_take(commits.manifests, commits.flows)
                    self._on_batch()

    def _try_to_take(self, manifests: Manifests, flows: Mapping[str, tuple[int, int]]) -> None:
        """Process commits and log errors. No error may end the thread: followers of queries wait for its `on_batch`."""
        try:
            self._take(manifests, flows)
        except Exception:
            _log.exception(f"figures of batches {self._seen} to {manifests.last - 1} are not complete")
            self._seen = manifests.last

    def _take(self, manifests: Sequence[Manifest], flows: Mapping[str, tuple[int, int]]) -> None:
        summaries = {summary.batch: summary for summary in self._summaries()}
        for manifest in manifests:
            self._seen = manifest.batch + 1
            with self._lock:
                self._note(manifest, summaries.get(manifest.batch), flows)
            self._count(manifest)

    def _note(self, manifest: Manifest, summary: BatchSummary | None, flows: Mapping[str, tuple[int, int]]) -> None:
        rows = sum(totals.rows for _, totals in manifest.streams)
        before = self._batches[-1].at if self._batches else None
        seconds = 0.0 if summary is None else _seconds(summary)
        elapsed = max(manifest.at - before, 1e-3) if before is not None else max(seconds, 1e-3)
        newest = [totals.max_time for _, totals in manifest.streams if totals.max_time is not None]
        self._batches.append(
            BatchFigures(
                batch=manifest.batch,
                at=manifest.at,
                rows=rows,
                seconds=seconds,
                phases={} if summary is None else _phases(summary.seconds),
                rows_per_second=rows / elapsed,
                latency=manifest.at - max(newest) / 1e6 if newest else None,
                queries=0 if summary is None else summary.queries,
            )
        )
        self._through.append((manifest.at, rows_through(manifest, flows)))
        for name, totals in manifest.streams:
            self._streams.setdefault(name, Counter()).update(
                rows=totals.rows,
                late=totals.late,
                bad_files=len(totals.bad_files),
                ahead=totals.ahead,
                missed=totals.missed,
                bad_rows=totals.bad_rows,
            )

    def _count(self, manifest: Manifest) -> None:
        """Count the result rows of a batch by query, unless counting has exceeded its share of the time."""
        began = time.monotonic()
        readings, live = self._readings(manifest)
        skipped = self._busy > _SHARE * (began - self._began) + 1.0 or manifest.pairs > MOST_PAIRS
        counts: Counter[QueryId] = Counter()
        if not skipped:
            try:
                counts = count_rows(manifest, readings)
            except ResultsGone:  # removed meanwhile
                skipped = True
            except Exception as error:
                # Readers of the query at fault get the error; the figures of the others must continue.
                reason = f"{type(error).__name__}: {error}"
                _log.warning(f"rows of batch {manifest.batch} were not counted: {reason}", extra={"error": str(error)})
                skipped = True
            self._busy += time.monotonic() - began
        totals = dict(manifest.streams)
        with self._lock:
            elapsed = max(self._batches[-1].at - self._batches[-2].at, 1e-3) if len(self._batches) > 1 else 1.0
            for query, streams in live.items():
                figures = self._queries.get(query) or self._queries.setdefault(query, self._unseen(query))
                newest = [t.max_time for s in streams if (t := totals.get(s)) is not None and t.max_time is not None]
                figures.latency = manifest.at - max(newest) / 1e6 if newest else figures.latency
                if skipped or query not in readings:
                    figures.rows = None
                    continue
                figures.rows = None if figures.rows is None else figures.rows + counts[query]
                figures.points.append(Point(manifest.at, counts[query] / elapsed, figures.latency))
                recent = list(figures.points)[-RECENT:]
                figures.rows_per_second = sum(point.rows_per_second for point in recent) / len(recent)
            rows = {query: None if skipped or query not in readings else counts[query] for query in live}
            self._counted.append(Counted(manifest.batch, rows, self._through[-1][1] if self._through else {}))
            self._forget(live)

    def _forget(self, live: Iterable[QueryId]) -> None:
        """Remove the figures of ended queries, except for the latest."""
        live_queries = set(live)
        ended = [query for query in self._queries if query not in live_queries]
        for query in ended[: max(0, len(ended) - KEPT_ENDED)]:
            del self._queries[query]

    def _readings(self, manifest: Manifest) -> tuple[dict[QueryId, Reading], dict[QueryId, tuple[str, ...]]]:
        """Return how to read the queries that were live in a batch, and the streams that each of them reads."""
        live = self._catalog.live_queries()
        recent = {**self._live, **live}  # some queries may have been dropped since the batch
        self._live = live
        readings = self._catalog.readings(manifest.batch, recent)
        streams = {
            query: tuple(dict.fromkeys(relation.stream for relation in recent[query].query.relations))
            for query in readings
        }
        # Only Spark can tell which rows HAVING keeps.
        return {query: reading for query, reading in readings.items() if reading.having is None}, streams


def _timed(figures: BatchFigures, summary: BatchSummary) -> BatchFigures:
    """Return the figures, completed with those of the batch's summary."""
    seconds, phases = _seconds(summary), _phases(summary.seconds)
    return replace(figures, seconds=seconds, phases=phases, queries=summary.queries)


def _seconds(summary: BatchSummary) -> float:
    return sum(summary.seconds.get(name, 0.0) for name in ("compile", "run", "commit"))


def _phases(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return phases that add up to the batch. Time on Spark outside of the stages is a phase of its own."""
    run = seconds.get("run", 0.0)
    stages = {name: spent for name, spent in seconds.items() if name not in ("compile", "run", "commit")}
    total = sum(stages.values())
    scale = min(1.0, run / total) if total else 0.0
    inner = {name: spent * scale for name, spent in stages.items()}
    spark = {"spark": max(0.0, run - sum(inner.values()))}
    return {"compile": seconds.get("compile", 0.0), **inner, **spark, "commit": seconds.get("commit", 0.0)}
