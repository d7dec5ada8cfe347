"""How one query's rows are found in the shared result log: what to read, and where it may be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.kernels.aggregate.result_columns import WINDOW_END, WINDOW_START, result_schema
from weft.kernels.payload_types import payload_type
from weft.plan.aggregation import Aggregation
from weft.plan.changelog import QueryRecord
from weft.plan.probe_tree import inputs_of
from weft.plan.query import BoundQuery
from weft.plan.strategy import ProbeAggregate, SessionAggregate, Strategy
from weft.plan.stream import Stream
from weft.plan.window import Session, Sliding, TimeBounds
from weft.planner.join_aggregates import over_combinations
from weft.storage.journal import Manifest

_TIMESTAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to find and build one query's rows; small and picklable, so it can go to any task."""

    data: str
    slot: int
    created: int
    ended: int | None
    start: int | None
    bounds: TimeBounds
    sliding: Sliding | None
    strategy: Strategy
    source: str
    """The id under which the result log has the query's rows."""
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema
    session: Session | None = None
    aggregation: Aggregation | None = None
    places: tuple[int, ...] = ()
    """For each relation, which member of a combination it is."""
    name: str = ""
    """What the query is called, for errors."""

    @property
    def having(self) -> str | None:
        """Spark SQL that rows read must satisfy to be results."""
        return None if self.aggregation is None else self.aggregation.having


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a segment (or a selection's bucket when `pairs` is empty) that may hold rows of the query; or, if
    there are `windows`, files that were written when windows ended, with the parts they refer to.

    Of its units (pairs, rows of the bucket, combinations, or groups of the query's own aggregate) it takes those from
    `first` to `last`, not included; None is the end.
    """

    pairs: str
    number: int
    left: tuple[str, int]
    right: tuple[str, int]
    windows: tuple[str, ...] = ()
    refs: tuple[tuple[str, int], ...] = ()
    first: int = 0
    last: int | None = None

    def only(self, first: int, last: int) -> Chunk:
        """A range of its units."""
        return replace(self, first=first, last=last)

    def to_json(self) -> str:
        """As it travels to a task."""
        return json.dumps(
            [self.pairs, self.number, self.left, self.right, self.windows, self.refs, self.first, self.last]
        )

    @classmethod
    def from_json(cls, text: str) -> Chunk:
        """The inverse of `to_json`."""
        pairs, number, left, right, windows, refs, first, last = json.loads(text)
        parts = tuple((path, part) for path, part in refs)
        return cls(pairs, number, (left[0], left[1]), (right[0], right[1]), tuple(windows), parts, first, last)


_NOWHERE = ("", 0)


def plan_reading(
    record: QueryRecord, query: BoundQuery, strategy: Strategy, streams: dict[str, Stream], *, data: str
) -> Reading:
    """How to read a query's results."""
    aggregation = query.aggregation
    if aggregation is not None and isinstance(strategy, ProbeAggregate | SessionAggregate):
        aggregation = over_combinations(query)
    return Reading(
        data=data,
        slot=record.slot,
        created=record.created,
        ended=record.ended,
        start=record.start,
        bounds=query.bounds,
        sliding=query.sliding,
        strategy=strategy,
        source=record.source or strategy.result,
        columns=tuple(relation.columns for relation in query.relations),
        schema=_schema(query, streams) if aggregation is None else result_schema(aggregation),
        session=query.session,
        aggregation=aggregation,
        places=_places(query),
        name=record.name,
    )


def _places(query: BoundQuery) -> tuple[int, ...]:
    inputs = inputs_of(query)
    order = sorted(inputs)
    return tuple(order.index(each) for each in inputs)


def _schema(query: BoundQuery, streams: dict[str, Stream]) -> pa.Schema:
    fields = []
    for number, relation in enumerate(query.relations):
        for name in relation.columns:
            field = streams[relation.stream].schema.find(name)
            assert field is not None
            fields.append(pa.field(f"{number}.{name}", payload_type(field.type)))
    if query.sliding is not None or query.session is not None:
        fields += [pa.field(WINDOW_START, _TIMESTAMP), pa.field(WINDOW_END, _TIMESTAMP)]
    return pa.schema(fields)


def chunks_of(reading: Reading, manifests: Iterable[Manifest]) -> Iterator[Chunk]:
    """Everything in these batches that may hold rows of the query, always in the same order."""
    for manifest in manifests:
        if manifest.batch < reading.created or (reading.ended is not None and manifest.batch >= reading.ended):
            continue
        yield from _window_chunks(reading, manifest)
        for segment in manifest.segments:
            for number, piece in enumerate(segment.pieces):
                if piece.join == reading.source:
                    left, right = (piece.left.path, piece.left.part), (piece.right.path, piece.right.part)
                    yield Chunk(segment.path, number, left, right)
        for bucket in manifest.selected:
            if bucket.store == reading.source:
                for part in range(len(bucket.parts)):
                    yield Chunk("", 0, (bucket.path, part), ("", 0))


def _window_chunks(reading: Reading, manifest: Manifest) -> Iterator[Chunk]:
    """Files of ended windows; those of an aggregation go together, since a group may be in several partitions."""
    mine = [result for result in manifest.windows if result.source == reading.source]
    if reading.aggregation is not None and mine:
        yield Chunk("", 0, _NOWHERE, _NOWHERE, tuple(result.path for result in mine))
    elif reading.aggregation is None:
        for result in mine:
            refs = tuple((ref.path, ref.part) for ref in result.refs)
            yield Chunk("", 0, _NOWHERE, _NOWHERE, (result.path,), refs)
