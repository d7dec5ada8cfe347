"""Which file came in which batch: the generator knows the files, the engine's manifests know the rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from weft.demo.generate import Written
from weft.errors import InternalError

_SETTLING = 10
"""Batches after which watermarks no longer depend on files that were removed."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file and the batch whose rows it holds."""

    file: Written
    batch: int


class Ledger:
    """Hands the files of each stream to batches, in the order they were written, by counting rows."""

    def __init__(self, written: deque[Written]) -> None:
        self._written = written
        self._waiting: dict[str, deque[Written]] = {}
        self.arrivals: list[Arrival] = []
        self.kept_from = 0

    @property
    def complete_from(self) -> int:
        """The first batch for which all that could matter is still here."""
        return self.kept_from + _SETTLING if self.kept_from else 0

    def note(self, batch: int, rows: Mapping[str, int]) -> None:
        """Batch `batch` has read so many rows of each stream; they are whole files."""
        while self._written:
            file = self._written.popleft()
            self._waiting.setdefault(file.stream, deque()).append(file)
        for stream, count in rows.items():
            left = count
            while left > 0:
                file = self._next(batch, stream, left)
                self.arrivals.append(Arrival(file, batch))
                left -= file.rows

    def _next(self, batch: int, stream: str, left: int) -> Written:
        waiting = self._waiting.get(stream)
        if not waiting or waiting[0].rows > left:
            raise InternalError(f'batch {batch} has {left} rows of stream "{stream}" that are no file of the demo')
        return waiting.popleft()

    def forget(self, before: int) -> None:
        """Remove the files of batches before `before`."""
        for arrival in self.arrivals:
            if arrival.batch < before:
                arrival.file.path.unlink(missing_ok=True)
        self.kept_from = before
        self.arrivals = [arrival for arrival in self.arrivals if arrival.batch >= before]
