"""The outside world: purchases of gem packs in a game and the ads shown for them, as Parquet files."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Array = np.ndarray[Any, Any]

LATENESS = timedelta(seconds=2)
SCHEMAS = {
    "purchases": "ts timestamp, userID bigint, gemPack int, price decimal(7,2)",
    "ads": "ts timestamp, userID bigint, gemPack int, length int",
}
GEM_PACKS = 20
DEAREST_CENTS = 9_999
LONGEST_AD_SECONDS = 60

_TICK = timedelta(milliseconds=500)
_LONGEST_TICK = timedelta(seconds=2)
"""A machine that was asleep goes on where it is: it does not make up for the time."""

_DELAYED, _DELAY_SECONDS = 0.03, 1.2  # out of order, but within the lateness
_LATE, _LATE_SECONDS = 0.0005, (3.0, 8.0)
_GUESTS = 0.01  # bought without an account: NULL never joins


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a stream."""

    stream: str
    path: Path
    rows: int


class Generator:
    """Writes both streams in real time, `rate` rows per second each: event time is the time of day.

    Files appear whole: they are written aside, then renamed. `written` names them in order, each before it appears.
    """

    def __init__(self, folder: Path, *, rate: int, seed: int) -> None:
        self.written: deque[Written] = deque()
        self.rows = 0
        self.error: Exception | None = None
        self._folder = folder
        self._rate = rate
        self._random = np.random.default_rng(seed)
        self._number = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-generator", daemon=True)
        for stream in SCHEMAS:
            self.folder_of(stream).mkdir(parents=True)
        self._aside.mkdir()

    @property
    def _aside(self) -> Path:
        return self._folder / "aside"

    def folder_of(self, stream: str) -> Path:
        """Where a stream's files appear."""
        return self._folder / stream

    def start(self) -> None:
        """Write in the background until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the file at hand and stop; harmless when it never started."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def write(self, start: float, end: float) -> None:
        """Write what happens between two moments (seconds since the epoch), one file per stream."""
        rows = round(self._rate * (end - start))
        users = max(1_000, 2 * self._rate)
        for stream, make in _MAKERS.items():
            times = event_times(self._random, rows, start=start, end=end)
            table = make(self._random, times, users)
            name = f"{self._number:08d}.parquet"
            pq.write_table(table, self._aside / name, compression="zstd")
            self.written.append(Written(stream, self.folder_of(stream) / name, rows))
            self.rows += rows
            os.replace(self._aside / name, self.folder_of(stream) / name)
        self._number += 1

    def _run(self) -> None:
        start = time.time()
        try:
            while not self._stopping.wait(max(0.0, start + _TICK.total_seconds() - time.time())):
                end = time.time()
                self.write(max(start, end - _LONGEST_TICK.total_seconds()), end)
                start = end
        except Exception as error:  # the main thread says it and stops
            self.error = error


def event_times(random: np.random.Generator, rows: int, *, start: float, end: float) -> Array:
    """Event times in microseconds, in the order of arrival: most between start and end, some before."""
    times = np.sort(random.uniform(start, end, rows))
    kind = random.random(rows)
    late = kind < _LATE
    delayed = ~late & (kind < _LATE + _DELAYED)
    times[delayed] -= random.uniform(0, _DELAY_SECONDS, int(delayed.sum()))
    times[late] -= random.uniform(*_LATE_SECONDS, int(late.sum()))
    return np.floor(times * 1_000_000).astype(np.int64)


def purchases(random: np.random.Generator, times: Array, users: int) -> pa.Table:
    """Who bought which pack for how much; cheap ones more often."""
    rows = len(times)
    cents = 99 + np.floor((DEAREST_CENTS - 99 + 1) * random.random(rows) ** 2).astype(np.int64)
    guests = random.random(rows) < _GUESTS
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "userID": pa.array(_users(random, rows, users), mask=guests),
            "gemPack": random.integers(1, GEM_PACKS + 1, rows, np.int32),
            "price": _decimal(cents),
        }
    )


def ads(random: np.random.Generator, times: Array, users: int) -> pa.Table:
    """Who was shown an ad for which pack, and for how many seconds."""
    rows = len(times)
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "userID": _users(random, rows, users),
            "gemPack": random.integers(1, GEM_PACKS + 1, rows, np.int32),
            "length": random.integers(5, LONGEST_AD_SECONDS + 1, rows, np.int32),
        }
    )


_MAKERS: dict[str, Callable[[np.random.Generator, Array, int], pa.Table]] = {"purchases": purchases, "ads": ads}


def _users(random: np.random.Generator, rows: int, users: int) -> Array:
    """Some users are busier than others."""
    return np.floor(users * random.random(rows) ** 1.5).astype(np.int64)


def _decimal(cents: Array) -> pa.Array:
    """Cents as decimal(7,2): 128-bit integers, low word first."""
    words = np.stack([cents, cents >> 63], axis=1)
    return pa.Decimal128Array.from_buffers(pa.decimal128(7, 2), len(cents), [None, pa.py_buffer(words)])
