"""The only place where the demo looks inside an engine; it changes nothing there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.engine import Engine, Query
from weft.plan.changelog import QueryRecord
from weft.plan.shared import SharedPlan
from weft.storage.journal import Manifest


@dataclass(frozen=True, slots=True)
class Reader:
    """A query that was live in some batch, and the streams it reads."""

    record: QueryRecord
    streams: frozenset[str]

    def was_live(self, batch: int) -> bool:
        """Whether it saw the rows of a batch."""
        return self.record.created <= batch and (self.record.ended is None or self.record.ended > batch)


def batches_from(engine: Engine, first: int) -> tuple[list[Manifest], list[Reader]]:
    """The batches committed from `first` on, and the queries that were live in some of them."""
    core = engine.core
    with core.lock:
        fresh = core.inventory.results_of(first)
        if not fresh:
            return [], []
        records = core.roster.records.live_after(first)
        streams = [frozenset(part.stream for part in core.roster.bound_query(r.id).relations) for r in records]
    return list(fresh), [Reader(record, read) for record, read in zip(records, streams, strict=True)]


def plan_and_watermarks(engine: Engine) -> tuple[SharedPlan, Mapping[str, int]]:
    """The shared plan in effect, and the watermark of each stream that has seen data."""
    return engine.core.plan, engine.core.watermarks()


def record_of(engine: Engine, query: Query) -> QueryRecord | None:
    """What the changelog says about a query; None before its first boundary."""
    return engine.core.roster.records.get(query.id)


def oldest_batch(engine: Engine) -> int:
    """The first batch whose results are still there."""
    with engine.core.lock:
        return engine.core.inventory.first_result or 0
