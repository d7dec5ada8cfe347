"""How the rows of one query are found in the shared result log: which files may contain them, and how to read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, assert_never

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
from weft.storage.result_files import PartRef

_TIMESTAMP = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class Reading:
    """How to find and build the rows of one query; small and picklable, so that it can be sent to any task."""

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
    """The position of each relation in a combination."""
    name: str = ""
    """The name of the query, for errors."""

    @property
    def having(self) -> str | None:
        """Spark SQL of HAVING, which rows must satisfy to be results."""
        return None if self.aggregation is None else self.aggregation.having


@dataclass(frozen=True, slots=True)
class BucketRows:
    """Rows of a selection in one part of a bucket. A unit is a row."""

    part: PartRef


@dataclass(frozen=True, slots=True)
class PiecePairs:
    """Pairs of an equi-join in one piece of a segment. A unit is a pair."""

    path: str
    number: int
    left: PartRef
    right: PartRef


@dataclass(frozen=True, slots=True)
class CombinationRows:
    """Combinations of a probe join or a session join in one file. A unit is a combination."""

    path: str
    refs: tuple[PartRef, ...]


@dataclass(frozen=True, slots=True)
class WindowCells:
    """Cells of closed windows of an aggregate. A unit is a group, which may be in several of the files."""

    paths: tuple[str, ...]


ChunkSource = BucketRows | PiecePairs | CombinationRows | WindowCells


@dataclass(frozen=True, slots=True)
class Chunk:
    """Files of the result log that may contain rows of a query: the units `first` to `last` - 1, or to the end."""

    source: ChunkSource
    first: int = 0
    last: int | None = None

    def only(self, first: int, last: int) -> Chunk:
        """Return a range of the units."""
        return replace(self, first=first, last=last)

    def to_json(self) -> str:
        """Return the chunk as text, for a task."""
        match self.source:
            case BucketRows(part=part):
                source: list[Any] = ["rows", _ref(part)]
            case PiecePairs(path=path, number=number, left=left, right=right):
                source = ["pairs", path, number, _ref(left), _ref(right)]
            case CombinationRows(path=path, refs=refs):
                source = ["combinations", path, [_ref(ref) for ref in refs]]
            case WindowCells(paths=paths):
                source = ["cells", paths]
            case _:
                assert_never(self.source)
        return json.dumps([source, self.first, self.last])

    @classmethod
    def from_json(cls, text: str) -> Chunk:
        """Return the chunk of `to_json`."""
        source, first, last = json.loads(text)
        return cls(_source(source), first, last)


def _ref(ref: PartRef) -> tuple[str, int]:
    return ref.path, ref.part


def _source(value: list[Any]) -> ChunkSource:
    match value:
        case ["rows", part]:
            return BucketRows(PartRef(*part))
        case ["pairs", path, number, left, right]:
            return PiecePairs(path, number, PartRef(*left), PartRef(*right))
        case ["combinations", path, refs]:
            return CombinationRows(path, tuple(PartRef(*ref) for ref in refs))
        case ["cells", paths]:
            return WindowCells(tuple(paths))
        case _:
            raise ValueError(f"unknown source of a chunk: {value!r:.100}")


def plan_reading(
    record: QueryRecord, query: BoundQuery, strategy: Strategy, streams: dict[str, Stream], *, data: str
) -> Reading:
    """Return how to read the results of a query."""
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
    return tuple(order.index(relation) for relation in inputs)


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
    """Yield the chunks of some batches that may contain rows of the query, always in the same order."""
    for manifest in manifests:
        if manifest.batch < reading.created or (reading.ended is not None and manifest.batch >= reading.ended):
            continue
        yield from _window_chunks(reading, manifest)
        for segment in manifest.segments:
            for number, piece in enumerate(segment.pieces):
                if piece.join == reading.source:
                    yield Chunk(PiecePairs(segment.path, number, piece.left, piece.right))
        for bucket in manifest.selected:
            if bucket.store == reading.source:
                for part in range(len(bucket.parts)):
                    yield Chunk(BucketRows(PartRef(bucket.path, part)))


def _window_chunks(reading: Reading, manifest: Manifest) -> Iterator[Chunk]:
    """Yield the files of an aggregate as one chunk, because a group may be in several of them; else one per file."""
    results = [result for result in manifest.windows if result.source == reading.source]
    if reading.aggregation is None:
        yield from (Chunk(CombinationRows(result.path, result.refs)) for result in results)
    elif results:
        yield Chunk(WindowCells(tuple(result.path for result in results)))
