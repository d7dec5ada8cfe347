"""Reading one query's rows out of the shared result log: the router, and the only place where full rows are built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from weft.kernels.payload_types import payload_type
from weft.kernels.select_pairs import Selected, select_pairs, select_rows
from weft.optimize.weave import is_swapped, sides_of
from weft.plan.changelog import QueryRecord
from weft.plan.query import BoundQuery
from weft.plan.shared import join_id
from weft.plan.stream import Stream
from weft.plan.window import Sliding, TimeBounds, to_micros
from weft.state.bucket import PartView, open_part
from weft.state.journal import Manifest
from weft.state.segment import read_pairs

WINDOW_START, WINDOW_END = "window_start", "window_end"
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
    source: str
    """Id of the shared join, or of the selection's store."""
    swapped: bool
    columns: tuple[tuple[str, ...], ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a segment (or a selection's bucket when `pairs` is empty) that may hold rows of the query."""

    pairs: str
    number: int
    left: tuple[str, int]
    right: tuple[str, int]

    def to_json(self) -> str:
        """As it travels to a task."""
        return json.dumps([self.pairs, self.number, self.left, self.right])

    @classmethod
    def from_json(cls, text: str) -> Chunk:
        """The inverse of `to_json`."""
        pairs, number, left, right = json.loads(text)
        return cls(pairs, number, (left[0], left[1]), (right[0], right[1]))


def plan_reading(record: QueryRecord, query: BoundQuery, streams: dict[str, Stream], *, data: str) -> Reading:
    """How to read a query's results."""
    sides = sides_of(query, record.route)
    swapped = is_swapped(sides)
    if query.is_join:
        left, right = (sides[1], sides[0]) if swapped else (sides[0], sides[1])
        assert left.index is not None and right.index is not None
        source = join_id(left.store, left.index.id, right.store, right.index.id)
    else:
        source = sides[0].store
    return Reading(
        data=data,
        slot=record.slot,
        created=record.created,
        ended=record.ended,
        start=record.start,
        bounds=query.bounds,
        sliding=query.sliding,
        source=source,
        swapped=swapped,
        columns=tuple(relation.columns for relation in query.relations),
        schema=_schema(query, streams),
    )


def _schema(query: BoundQuery, streams: dict[str, Stream]) -> pa.Schema:
    fields = []
    for number, relation in enumerate(query.relations):
        for name in relation.columns:
            field = streams[relation.stream].schema.find(name)
            assert field is not None
            fields.append(pa.field(f"{number}.{name}", payload_type(field.type)))
    if query.sliding is not None:
        fields += [pa.field(WINDOW_START, _TIMESTAMP), pa.field(WINDOW_END, _TIMESTAMP)]
    return pa.schema(fields)


def chunks_of(reading: Reading, manifests: Iterable[Manifest]) -> Iterator[Chunk]:
    """Everything in these batches that may hold rows of the query."""
    for manifest in manifests:
        if manifest.batch < reading.created or (reading.ended is not None and manifest.batch >= reading.ended):
            continue
        for segment in manifest.segments:
            for number, piece in enumerate(segment.pieces):
                if piece.join == reading.source:
                    left, right = (piece.left.path, piece.left.part), (piece.right.path, piece.right.part)
                    yield Chunk(segment.path, number, left, right)
        for bucket in manifest.selected:
            if bucket.store == reading.source:
                for part in range(len(bucket.parts)):
                    yield Chunk("", 0, (bucket.path, part), ("", 0))


def read_chunk(reading: Reading, chunk: Chunk) -> pa.Table:
    """The query's rows in a chunk: the columns its SELECT list needs, named `<relation>.<column>`."""
    data = Path(reading.data)
    left = open_part(data / chunk.left[0], chunk.left[1])
    if not chunk.pairs:
        selected = select_rows(left.times, left.sets, slot=reading.slot, sliding=reading.sliding, start=reading.start)
        return _build(reading, [(left, pa.array(selected.positions))], selected)
    right = open_part(data / chunk.right[0], chunk.right[1])
    if min(left.epoch, right.epoch) < reading.created:
        return reading.schema.empty_table()
    left_rows, right_rows = next(read_pairs(data / chunk.pairs, (chunk.number,)))
    sides = [(left, left_rows), (right, right_rows)]
    if reading.swapped:
        sides.reverse()
    (first, first_rows), (second, second_rows) = sides
    selected = select_pairs(
        first_rows,
        second_rows,
        (first.times, first.sets),
        (second.times, second.sets),
        slot=reading.slot,
        bounds=reading.bounds,
        sliding=reading.sliding,
        start=reading.start,
    )
    rows = [(view, pa.array(numbers[selected.positions])) for view, numbers in sides]
    return _build(reading, rows, selected)


def _build(reading: Reading, sides: list[tuple[PartView, pa.Array]], selected: Selected) -> pa.Table:
    """Gather the columns of the selected combinations."""
    if len(selected.positions) == 0:
        return reading.schema.empty_table()
    arrays: list[pa.Array] = []
    for (view, rows), names in zip(sides, reading.columns, strict=True):
        arrays += view.rows.select(list(names)).take(rows).columns
    if reading.sliding is not None:
        assert selected.window_start is not None
        starts = selected.window_start
        ends = starts + to_micros(reading.sliding.size)
        arrays += [pa.array(starts).cast(_TIMESTAMP), pa.array(ends).cast(_TIMESTAMP)]
    if not arrays:  # a SELECT list of constants: only the number of rows counts
        return pa.table({"weft#rows": pa.nulls(len(selected.positions), pa.bool_())})
    return pa.Table.from_arrays(arrays, schema=reading.schema)
