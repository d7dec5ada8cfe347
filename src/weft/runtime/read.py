"""Reading one query's rows out of the shared result log: the router, and the only place where full rows are built."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from weft.errors import QueryFailed
from weft.kernels.bitset import column_of
from weft.kernels.cells import concat
from weft.kernels.finish import WINDOW_END, WINDOW_START, SumOverflow, WindowEnd, finish, result_schema
from weft.kernels.payload_types import payload_type
from weft.kernels.select_pairs import Selected, select_pairs, select_rows, select_windows
from weft.optimize.combined import over_combinations
from weft.optimize.gathered import session_aggregate_id
from weft.optimize.probed import source_of
from weft.optimize.slices import slice_sides
from weft.optimize.weave import is_swapped, session_places, sides_of
from weft.plan.aggregate import Aggregation
from weft.plan.changelog import QueryRecord
from weft.plan.probes import inputs_of
from weft.plan.query import BoundQuery
from weft.plan.shared import aggregate_id, join_id, session_id
from weft.plan.stream import Stream
from weft.plan.window import Session, Sliding, TimeBounds, to_micros
from weft.runtime.row_parts import RowParts
from weft.state.bucket import PartView, open_part
from weft.state.combination import Member, open_combinations
from weft.state.journal import Manifest
from weft.state.segment import PartRef, read_pairs, read_session_rows
from weft.state.slices import read_slices

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
    session: Session | None = None
    aggregation: Aggregation | None = None
    places: tuple[int, ...] | None = None
    """For each relation, which member of a combination it is, if results are such."""

    @property
    def having(self) -> str | None:
        """Spark SQL that rows read must satisfy to be results."""
        return None if self.aggregation is None else self.aggregation.having


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a segment (or a selection's bucket when `pairs` is empty) that may hold rows of the query; or, if
    there are `windows`, files that were written when windows ended, with the parts they refer to."""

    pairs: str
    number: int
    left: tuple[str, int]
    right: tuple[str, int]
    windows: tuple[str, ...] = ()
    refs: tuple[tuple[str, int], ...] = ()

    def to_json(self) -> str:
        """As it travels to a task."""
        return json.dumps([self.pairs, self.number, self.left, self.right, self.windows, self.refs])

    @classmethod
    def from_json(cls, text: str) -> Chunk:
        """The inverse of `to_json`."""
        pairs, number, left, right, windows, refs = json.loads(text)
        parts = tuple((path, part) for path, part in refs)
        return cls(pairs, number, (left[0], left[1]), (right[0], right[1]), tuple(windows), parts)


_NOWHERE = ("", 0)


def plan_reading(record: QueryRecord, query: BoundQuery, streams: dict[str, Stream], *, data: str) -> Reading:
    """How to read a query's results."""
    source, swapped = _source(record, query)
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
        schema=_schema(query, streams) if query.aggregation is None else result_schema(query.aggregation),
        session=query.session,
        aggregation=over_combinations(query) if query.aggregation and query.is_wide else query.aggregation,
        places=_places(query) if query.is_wide or query.session is not None else None,
    )


def _places(query: BoundQuery) -> tuple[int, ...]:
    inputs = inputs_of(query)
    order = sorted(inputs)
    return tuple(order.index(each) for each in inputs)


def _source(record: QueryRecord, query: BoundQuery) -> tuple[str, bool]:
    """Id of what makes the query's rows, and whether that has the query's relations the other way round."""
    if query.aggregation is not None and not query.is_gathered:
        return aggregate_id(tuple(side.store for side in slice_sides(query))), False
    if query.is_probed:
        return source_of(query), False
    sides = sides_of(query, record.route)
    if query.session is not None:
        source = session_id(session_places(sides))
        return (source if query.aggregation is None else session_aggregate_id(query, source)), False
    if not query.is_join:
        return sides[0].store, False
    swapped = is_swapped(sides)
    left, right = (sides[1], sides[0]) if swapped else (sides[0], sides[1])
    assert left.index is not None and right.index is not None
    return join_id(left.store, left.index.id, right.store, right.index.id), swapped


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
    """Everything in these batches that may hold rows of the query."""
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


def read_chunk(reading: Reading, chunk: Chunk) -> pa.Table:
    """The query's rows in a chunk: the columns its SELECT list needs, named `<relation>.<column>`; of an aggregation
    its keys `g<n>`, values `a<n>` and window."""
    data = Path(reading.data)
    if reading.aggregation is not None:
        return _read_aggregate(reading, reading.aggregation, chunk)
    if reading.places is not None:
        read = _read_combinations if reading.session is None else _read_sessions
        return read(reading, reading.places, chunk)
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


def _read_aggregate(reading: Reading, aggregation: Aggregation, chunk: Chunk) -> pa.Table:
    parts = []
    for path in chunk.windows:
        for cells, _ in read_slices(Path(reading.data) / path, (0,)):
            rows = np.flatnonzero(column_of(cells.sets, reading.slot)[cells.classes])
            if len(rows):
                parts.append(cells.take(rows))
    if not parts:
        return reading.schema.empty_table()
    window = reading.sliding.size if reading.sliding is not None else reading.session.gap if reading.session else None
    assert window is not None
    end = WindowEnd(to_micros(window), session=reading.session is not None)
    try:
        return finish(concat(parts), aggregation, end)
    except SumOverflow as error:
        raise QueryFailed(
            "a sum does not fit its type", detail=str(error), hint="Sum a wider type: SUM(CAST(x AS DECIMAL(38, 0)))."
        ) from error


def _read_sessions(reading: Reading, places: Sequence[int], chunk: Chunk) -> pa.Table:
    assert reading.session is not None
    rows = read_session_rows(Path(reading.data) / chunk.windows[0], reading.slot)
    parts = RowParts(reading.data)
    numbers = parts.numbers([PartRef(*ref) for ref in chunk.refs])
    arrays: list[pa.Array] = []
    for place, names in zip(places, reading.columns, strict=True):
        member = Member(numbers[rows[f"p{place}"]], rows[f"r{place}"], rows["first"])
        arrays += [parts.column(member, name) for name in names]
    ends = rows["last"] + to_micros(reading.session.gap)
    arrays += [pa.array(values).cast(_TIMESTAMP) for values in (rows["first"], ends)]
    return pa.Table.from_arrays(arrays, schema=reading.schema) if len(ends) else reading.schema.empty_table()


def _read_combinations(reading: Reading, places: Sequence[int], chunk: Chunk) -> pa.Table:
    """The query's own among the combinations of a file; with sliding windows once for each that holds all members."""
    file = open_combinations(Path(reading.data) / chunk.windows[0])
    mine = np.flatnonzero(column_of(file.sets, reading.slot)) if file.words * 64 > reading.slot else np.empty(0, int)
    if len(mine) == 0:
        return reading.schema.empty_table()
    parts = RowParts(reading.data)
    numbers = np.array([parts.number(ref) for ref in file.refs], np.int32)
    members = [Member(numbers[part[mine]], row[mine], row[mine]) for part, row in map(file.rows, places)]
    selected = Selected(np.arange(len(mine)), None)
    if reading.sliding is not None:
        times = np.stack([parts.times(member) for member in members])
        selected = select_windows(times.min(axis=0), times.max(axis=0), sliding=reading.sliding, start=reading.start)
    arrays: list[pa.Array] = []
    for member, names in zip(members, reading.columns, strict=True):
        taken = member.take(selected.positions)
        arrays += [parts.column(taken, name) for name in names]
    return _finished(reading, arrays, selected)


def _build(reading: Reading, sides: list[tuple[PartView, pa.Array]], selected: Selected) -> pa.Table:
    """Gather the columns of the selected combinations."""
    if len(selected.positions) == 0:
        return reading.schema.empty_table()
    arrays: list[pa.Array] = []
    for (view, rows), names in zip(sides, reading.columns, strict=True):
        arrays += view.rows.select(list(names)).take(rows).columns
    return _finished(reading, arrays, selected)


def _finished(reading: Reading, arrays: list[pa.Array], selected: Selected) -> pa.Table:
    """The table of some columns, with the windows if there are any."""
    if len(selected.positions) == 0:
        return reading.schema.empty_table()
    if reading.sliding is not None:
        assert selected.window_start is not None
        starts = selected.window_start
        ends = starts + to_micros(reading.sliding.size)
        arrays += [pa.array(starts).cast(_TIMESTAMP), pa.array(ends).cast(_TIMESTAMP)]
    if not arrays:  # a SELECT list of constants: only the number of rows counts
        return pa.table({"weft#rows": pa.nulls(len(selected.positions), pa.bool_())})
    return pa.Table.from_arrays(arrays, schema=reading.schema)
