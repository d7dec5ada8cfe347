"""Files handed to Flink in the order of their names.

Flink's file source takes the newest file it knows first: with several waiting, event time jumps back and forth, and
rows come behind the watermark. So each job reads folders of its own, into which files are linked one at a time, the
next one as soon as a reader has taken the last, and no stream far ahead of another. Part of `flink_program.py`; needs
nothing but pyarrow.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

_NONE = -1


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the parallel readers of one source are, told from the rows each has emitted.

    At most one file waits to be taken, so the reader that emits more rows than it had files for has taken that one.
    """

    taken: tuple[int, ...]
    """The newest file of each reader."""
    owed: tuple[int, ...]
    """Rows of all files of each reader."""
    emitted: tuple[int, ...]
    waiting: int = _NONE
    waiting_rows: int = 0

    @staticmethod
    def of(readers: int) -> Reading:
        """No file yet."""
        return Reading((_NONE,) * readers, (0,) * readers, (0,) * readers)

    def handed(self, number: int, rows: int) -> Reading:
        """After a file was handed over."""
        if self.waiting != _NONE:
            raise ValueError(f"file {number} is handed over while file {self.waiting} waits")
        return replace(self, waiting=number, waiting_rows=rows) if rows else self

    def seen(self, emitted: Sequence[int]) -> Reading:
        """After the readers were seen to have emitted so many rows."""
        now = replace(self, emitted=tuple(emitted))
        for reader, rows in enumerate(emitted):
            if rows > self.owed[reader] and self.waiting != _NONE:
                return replace(
                    now,
                    taken=_set(self.taken, reader, self.waiting),
                    owed=_set(self.owed, reader, self.owed[reader] + self.waiting_rows),
                    waiting=_NONE,
                    waiting_rows=0,
                )
        return now

    def passed(self, following: int) -> int:
        """The oldest file that is not done; `following` if all are."""
        open_files = [
            file
            for file, rows, owed in zip(self.taken, self.emitted, self.owed, strict=True)
            if file != _NONE and rows < owed
        ]
        return min([*open_files, following] if self.waiting == _NONE else [*open_files, self.waiting])


def _set(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])


def numbers(folder: Path) -> list[int]:
    """The numbers of the files that are in a stream's folder, in order."""
    return sorted(int(name[:-8]) for name in os.listdir(folder) if name.endswith(".parquet") and name[:-8].isdigit())


@dataclass(slots=True)
class Gate:
    """One stream of one job: what is handed over from `folder` into `inside`, from file `following` on."""

    folder: Path
    inside: Path
    following: int
    readings: dict[str, Reading] = field(default_factory=dict)
    """By source: usually one, which all queries of the job share."""
    linked: list[int] = field(default_factory=list)
    handed: dict[int, float] = field(default_factory=dict)
    """When files were handed over that are not passed yet."""

    def open(self, sources: Mapping[str, int]) -> None:
        """Begin, with as many readers of each source as said."""
        self.readings = {name: Reading.of(readers) for name, readers in sources.items()}

    def passed(self, emitted: Mapping[str, Sequence[int]]) -> int:
        """How many files the slowest source has passed, now that readers have emitted so many rows.

        A stream that no query of the job reads is passed as soon as it is there.
        """
        if not self.readings:
            return max([self.following, *(number + 1 for number in numbers(self.folder))])
        self.readings = {name: reading.seen(emitted[name]) for name, reading in self.readings.items()}
        passed = min(reading.passed(self.following) for reading in self.readings.values())
        while self.linked and self.linked[0] < passed:
            (self.inside / _name(self.linked.pop(0))).unlink(missing_ok=True)
        return passed

    def begun(self, first: int, end: int) -> float | None:
        """When the first of these files was handed over, and forget them; None if none of them was."""
        return min((self.handed.pop(number) for number in range(first, end) if number in self.handed), default=None)

    def hand_over(self, last: int) -> None:
        """Hand over the next file if it is there, its number is at most `last`, and no other file waits."""
        if not self.readings or any(reading.waiting != _NONE for reading in self.readings.values()):
            return
        number = next((number for number in numbers(self.folder) if number >= self.following), None)
        if number is None or number > last:
            return
        # The driver may remove a file at any time; one that is gone was passed by all readers long ago.
        with contextlib.suppress(FileNotFoundError):
            rows = pq.read_metadata(self.folder / _name(number)).num_rows
            _link(self.folder / _name(number), self.inside / _name(number))
            self.linked.append(number)
            self.handed[number] = time.time()
            self.readings = {name: reading.handed(number, rows) for name, reading in self.readings.items()}
        self.following = number + 1


def _name(number: int) -> str:
    return f"{number:08d}.parquet"


def _link(path: Path, target: Path) -> None:
    """A second name for a file, so that it stays when the first is removed; a symbolic one on another file system."""
    try:
        os.link(path, target)
    except FileNotFoundError:
        raise
    except OSError:
        target.symlink_to(path.absolute())
