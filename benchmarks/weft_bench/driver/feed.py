"""The queue as the driver sees it: what was generated and when it was due, and who has passed what."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft_bench.driver.messages import Pulled
from weft_bench.driver.releases import Released

Moments = npt.NDArray[np.float64]
Events = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pass:
    """How far a reader was at a moment."""

    at: float
    rows: int
    """Rows of all streams together since the beginning."""


class Feed:
    """All files of all streams in the order of their numbers, and all that readers said; not safe for threads.

    A reader that reads for one query bears its name, so that it can be forgotten with the query.
    """

    def __init__(self, streams: Sequence[str]) -> None:
        self._ends: dict[str, list[int]] = {name: [] for name in streams}
        self._released: list[Released] = []
        self._pulls: dict[str, list[Pulled]] = {}
        self._forgotten: set[str] = set()
        self._removed = 0

    def released(self, files: Released) -> None:
        """One more file of every stream."""
        if files.number != len(self._released):
            raise ValueError(f"file {files.number} came when {len(self._released)} was expected")
        self._released.append(files)
        for name, ends in self._ends.items():
            ends.append(files.rows[name][1])

    def pulled(self, message: Pulled) -> None:
        """What a reader says; that of a query that is gone is left alone."""
        if message.reader not in self._forgotten and message.files:
            self._pulls.setdefault(message.reader, []).append(message)

    def forget(self, readers: Iterable[str]) -> None:
        """These readers read no more: nobody waits for them."""
        for reader in readers:
            self._forgotten.add(reader)
            self._pulls.pop(reader, None)

    @property
    def readers(self) -> tuple[str, ...]:
        """All that read."""
        return tuple(self._pulls)

    @property
    def generated(self) -> int:
        """Rows of all streams together."""
        return self._rows_in(dict.fromkeys(self._ends, len(self._released)))

    @property
    def passed(self) -> int:
        """Rows that the slowest reader has passed; none if nobody reads."""
        return min((self._rows_in(pulls[-1].files) for pulls in self._pulls.values()), default=0)

    @property
    def waiting(self) -> int:
        """Rows that the slowest reader has not passed yet."""
        return self.generated - self.passed

    def passes(self, reader: str) -> tuple[Pass, ...]:
        """How far a reader was whenever it said so."""
        return tuple(Pass(pull.at, self._rows_in(pull.files)) for pull in self._pulls[reader])

    def frontier(self, begin: float = -math.inf, end: float = math.inf) -> tuple[Pass, ...]:
        """How far the slowest of today's readers was whenever it came further, between two moments.

        A reader counts from when it first spoke.
        """
        rows: dict[str, int] = {}
        steps: list[tuple[float, int, str]] = []
        for reader in self._pulls:
            for step in self.passes(reader):
                if step.at < begin:
                    rows[reader] = step.rows
                elif step.at <= end:
                    steps.append((step.at, step.rows, reader))
        furthest = min(rows.values(), default=0)
        found: list[Pass] = []
        for at, count, reader in sorted(steps):
            rows[reader] = max(rows.get(reader, 0), count)
            least = min(rows.values())
            if least > furthest:
                furthest = least
                found.append(Pass(at, least))
        return tuple(found)

    def late(self, begin: float, end: float) -> float:
        """By how many seconds the generator itself was behind at worst, of rows due between two moments."""
        return max((each.late for each in self._released if begin <= each.due[1] <= end), default=0.0)

    def rows_due(self, moment: float) -> float:
        """Rows of all streams together that were due by a moment."""
        number = bisect_right(self._released, moment, key=lambda each: each.due[1])
        whole = self._rows_in(dict.fromkeys(self._ends, number))
        if number == len(self._released):
            return whole
        begin, end = self._released[number].due
        part = max(moment - begin, 0.0) / (end - begin) if end > begin else 0.0
        return whole + part * sum(last - first for first, last in self._released[number].rows.values())

    def due(self, events: Events) -> Moments:
        """When event times were due: linear within a file; NaN where nothing with that event time was generated."""
        number, known = self._files_of(events)
        if not self._released:
            return np.full(len(events), np.nan)
        bounds = np.array([(*each.event, *each.due) for each in self._released])[number]
        part = (events - bounds[:, 0]) / np.maximum(bounds[:, 1] - bounds[:, 0], 1)
        due = bounds[:, 2] + np.clip(part, 0.0, 1.0) * (bounds[:, 3] - bounds[:, 2])
        return np.where(known, due, np.nan)

    def begun(self, events: Events, query: str) -> Moments:
        """When the reader of a query, or of all queries, began to read event times; NaN where it is not known."""
        readers = [query] if query in self._pulls else list(self._pulls)
        began = np.full(len(self._released), np.inf)
        for reader in readers:
            before = 0
            for pull in self._pulls[reader]:
                after = min(*pull.files.values(), len(self._released))
                began[before:after] = np.minimum(began[before:after], pull.began)
                before = max(before, after)
        number, known = self._files_of(events)
        if not self._released:
            return np.full(len(events), np.nan)
        moments = began[number]
        return np.where(known & np.isfinite(moments), moments, np.nan)

    def removable(self, before: float) -> tuple[int, ...]:
        """Numbers of files, each told once, that everybody has passed and that were released before a moment."""
        passed = min((min(pulls[-1].files.values()) for pulls in self._pulls.values()), default=0)
        end = self._removed
        while end < min(passed, len(self._released)) and self._released[end].at < before:
            end += 1
        begin, self._removed = self._removed, end
        return tuple(range(begin, end))

    def _rows_in(self, files: Mapping[str, int]) -> int:
        # A reader of some of the streams is as far with the others as with the slowest of its own.
        least = min(files.values())
        return sum(_end(ends, files.get(name, least)) for name, ends in self._ends.items())

    def _files_of(self, events: Events) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """The file of each event time, and whether there is one."""
        if not self._released:
            return np.zeros(len(events), np.intp), np.zeros(len(events), np.bool_)
        ends = np.array([each.event[1] for each in self._released])
        number = np.searchsorted(ends, events, side="right")
        known = (number < len(ends)) & (events >= self._released[0].event[0])
        return np.minimum(number, len(ends) - 1), known


def _end(ends: Sequence[int], files: int) -> int:
    """Rows in the first files; a system may be quicker to speak of a file than the generator."""
    number = min(files, len(ends))
    return ends[number - 1] if number else 0
