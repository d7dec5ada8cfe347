"""Count the result rows of a batch for all queries together.

The result log is shared, so each piece of it is opened once, not once per query. Results of closed windows are few, and
are counted as their query would read them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import ResultsGone
from weft.execution.results.read import Reading, chunks_of, ranges
from weft.kernels.join.select_matches import select_pairs, select_rows
from weft.plan.changelog import QueryId
from weft.plan.strategy import EquiJoin
from weft.storage.bucket import PartView, open_part
from weft.storage.journal import Manifest
from weft.storage.result_files import Rows, Segment, SegmentPiece, read_pairs

Readers = Sequence[tuple[QueryId, Reading]]
"""Queries that read the same source, and how each reads it."""
_AT_ONCE = 1 << 20
"""Maximum number of pairs that are examined together, to bound memory."""


def count_rows(manifest: Manifest, readings: Mapping[QueryId, Reading]) -> Counter[QueryId]:
    """Return the number of result rows of a batch by query, before HAVING.

    Raises ResultsGone if the results are no longer kept.
    """
    try:
        return _count(manifest, readings)
    except FileNotFoundError as error:
        raise ResultsGone(f"results of batch {manifest.batch} are not kept any more") from error


def _count(manifest: Manifest, readings: Mapping[QueryId, Reading]) -> Counter[QueryId]:
    batch = manifest.batch
    sources: dict[str, list[tuple[QueryId, Reading]]] = defaultdict(list)
    for query, reading in readings.items():
        if reading.created <= batch and (reading.ended is None or batch < reading.ended):
            sources[reading.source].append((query, reading))
    counts: Counter[QueryId] = Counter()
    if sources:
        data = Path(next(iter(readings.values())).data)
        parts = _Parts(data)
        for segment in manifest.segments:
            _count_segment(segment, sources, parts, counts)
        for bucket in manifest.selected:
            for number in range(len(bucket.parts)):
                _count_selected(parts.open(bucket.path, number), sources.get(bucket.store, ()), counts)
        for source in {result.source for result in manifest.windows} & set(sources):
            for query, reading in sources[source]:
                counts[query] += sum(rows.rows for rows in ranges(reading, chunks_of(reading, [manifest])))
    return counts


class _Parts:
    """Parts of buckets. Each part is opened once, since several pieces of a batch may refer to it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._open: dict[tuple[str, int], PartView] = {}

    def open(self, path: str, part: int) -> PartView:
        key = (path, part)
        if key not in self._open:
            self._open[key] = open_part(self.data / path, part)
        return self._open[key]


def _count_segment(segment: Segment, sources: Mapping[str, Readers], parts: _Parts, counts: Counter[QueryId]) -> None:
    wanted = [(number, piece) for number, piece in enumerate(segment.pieces) if piece.join in sources]
    if wanted:
        pairs = read_pairs(parts.data / segment.path, [number for number, _ in wanted])
        for (_, piece), rows in zip(wanted, pairs, strict=True):
            _count_piece(piece, rows, parts, readers=sources[piece.join], counts=counts)


def _count_piece(
    piece: SegmentPiece,
    rows: tuple[Rows, Rows],
    parts: _Parts,
    *,
    readers: Readers,
    counts: Counter[QueryId],
) -> None:
    views = parts.open(piece.left.path, piece.left.part), parts.open(piece.right.path, piece.right.part)
    epoch = min(view.epoch for view in views)
    for query, reading in readers:
        if epoch < reading.created:
            continue
        is_swapped = isinstance(reading.strategy, EquiJoin) and reading.strategy.swapped
        first, second = (1, 0) if is_swapped else (0, 1)
        for begin in range(0, len(rows[0]), _AT_ONCE):
            span = slice(begin, begin + _AT_ONCE)
            selected = select_pairs(
                rows[first][span],
                rows[second][span],
                (views[first].times, views[first].sets),
                (views[second].times, views[second].sets),
                slot=reading.slot,
                bounds=reading.bounds,
                sliding=reading.sliding,
                start=reading.start,
            )
            counts[query] += len(selected.positions)


def _count_selected(view: PartView, readers: Readers, counts: Counter[QueryId]) -> None:
    for query, reading in readers:
        selected = select_rows(view.times, view.sets, slot=reading.slot, sliding=reading.sliding, start=reading.start)
        counts[query] += len(selected.positions)
