"""Result rows per query, counted for all queries together as batches are committed.

The result log is shared, so counting is too: each piece of it is opened once, not once per query.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.kernels.select_pairs import select_pairs, select_rows
from weft.runtime.read import Reading
from weft.state.bucket import PartView, open_part
from weft.state.journal import Manifest
from weft.state.segment import Piece, Rows, Segment, read_pairs

_MOST_WAITING = 30
_RECENT = 5
"""Batches over which rates are taken."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A query's result rows: in all, and per second lately."""

    rows: int
    per_second: float


Readers = Sequence[tuple[str, Reading]]
"""Queries of one source, by name."""


class RowCounter:
    """Counts batch by batch, within the time it is given."""

    def __init__(self) -> None:
        self._waiting: deque[Manifest] = deque()
        self._rows: Counter[str] = Counter()
        self._recent: deque[tuple[float, Counter[str]]] = deque(maxlen=_RECENT + 1)
        self.gave_up = False

    def of(self, name: str) -> Counted | None:
        """What is known of a query; None if counting could not keep up with the batches."""
        if self.gave_up:
            return None
        recent = list(self._recent)
        seconds = recent[-1][0] - recent[0][0] if recent else 0.0
        lately = sum(counts[name] for _, counts in recent[1:])
        return Counted(self._rows[name], lately / seconds if seconds else 0.0)

    @property
    def total(self) -> int:
        """Rows of all queries that were counted."""
        return self._rows.total()

    @property
    def behind(self) -> bool:
        """Whether batches wait to be counted."""
        return bool(self._waiting)

    def add(self, manifests: Iterable[Manifest]) -> None:
        """Batches were committed."""
        self._waiting.extend(manifests)
        if len(self._waiting) > _MOST_WAITING:
            self.gave_up = True
            self._waiting.clear()

    def count(self, readings: Mapping[str, Reading], *, seconds: float) -> None:
        """Count the rows of these queries in the batches that wait, oldest first, until the time is up."""
        deadline = time.monotonic() + seconds
        while self._waiting and not self.gave_up and time.monotonic() < deadline:
            manifest = self._waiting.popleft()
            counts = count_rows(manifest, readings)
            self._rows.update(counts)
            self._recent.append((manifest.at, counts))


def count_rows(manifest: Manifest, readings: Mapping[str, Reading]) -> Counter[str]:
    """Rows that a batch gave to each query."""
    batch = manifest.batch
    sources: dict[str, list[tuple[str, Reading]]] = defaultdict(list)
    for name, reading in readings.items():
        if reading.created <= batch and (reading.ended is None or batch < reading.ended):
            sources[reading.source].append((name, reading))
    counts: Counter[str] = Counter()
    if sources:
        data = Path(next(iter(readings.values())).data)
        parts = _Parts(data)
        for segment in manifest.segments:
            _count_segment(segment, sources, parts, counts)
        for bucket in manifest.selected:
            for number in range(len(bucket.parts)):
                _count_selected(parts.open(bucket.path, number), sources.get(bucket.store, ()), counts)
    return counts


class _Parts:
    """Parts of buckets, each opened once: several pieces of a batch refer to the same."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self._open: dict[tuple[str, int], PartView] = {}

    def open(self, path: str, part: int) -> PartView:
        key = (path, part)
        if key not in self._open:
            self._open[key] = open_part(self.data / path, part)
        return self._open[key]


def _count_segment(segment: Segment, sources: Mapping[str, Readers], parts: _Parts, counts: Counter[str]) -> None:
    wanted = [(number, piece) for number, piece in enumerate(segment.pieces) if piece.join in sources]
    if wanted:
        pairs = read_pairs(parts.data / segment.path, [number for number, _ in wanted])
        for (_, piece), rows in zip(wanted, pairs, strict=True):
            _count_piece(piece, rows, parts, readers=sources[piece.join], counts=counts)


def _count_piece(
    piece: Piece,
    rows: tuple[Rows, Rows],
    parts: _Parts,
    *,
    readers: Readers,
    counts: Counter[str],
) -> None:
    views = parts.open(piece.left.path, piece.left.part), parts.open(piece.right.path, piece.right.part)
    epoch = min(view.epoch for view in views)
    for name, reading in readers:
        if epoch < reading.created:
            continue
        first, second = (1, 0) if reading.swapped else (0, 1)
        selected = select_pairs(
            rows[first],
            rows[second],
            (views[first].times, views[first].sets),
            (views[second].times, views[second].sets),
            slot=reading.slot,
            bounds=reading.bounds,
            sliding=reading.sliding,
            start=reading.start,
        )
        counts[name] += len(selected.positions)


def _count_selected(view: PartView, readers: Readers, counts: Counter[str]) -> None:
    for name, reading in readers:
        selected = select_rows(view.times, view.sets, slot=reading.slot, sliding=reading.sliding, start=reading.start)
        counts[name] += len(selected.positions)
