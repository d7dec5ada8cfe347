"""Generator of two streams as Parquet files: purchases of gem packs in a game, and the ads shown for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Array = np.ndarray[Any, Any]

SCHEMAS = {
    "purchases": "ts timestamp, userID bigint, gemPack int, price decimal(7,2)",
    "ads": "ts timestamp, userID bigint, gemPack int, length int",
}
LATENESS_SECONDS = 2
GEM_PACKS = 20
DEAREST_CENTS = 9_999
LONGEST_AD_SECONDS = 60

_LONGEST_TICK_SECONDS = 2.0  # rows of a longer pause (the machine slept) are not generated
_DELAYED, _DELAY_SECONDS = 0.03, 1.2  # share and delay of rows out of order, but within the lateness
_LATE, _LATE_SECONDS = 0.0005, (3.0, 8.0)  # share and delay of late rows
_GUESTS = 0.01  # share of purchases with NULL as user, which never joins


class Generator:
    """A writer of both streams, with `rate` rows per second each; `rows` counts the rows written, by stream."""

    def __init__(self, folder: Path, *, rate: int, seed: int, start: float) -> None:
        self.folder = folder
        self.rows = dict.fromkeys(SCHEMAS, 0)
        self._rate = rate
        self._random = np.random.default_rng(seed)
        self._number = 0
        self._written_until = start
        for name in (*SCHEMAS, "aside"):
            (folder / name).mkdir(parents=True)

    def write(self, now: float) -> None:
        """Write the rows up to `now` (in seconds since 1970): one file per stream, which appears only when complete."""
        start, self._written_until = max(self._written_until, now - _LONGEST_TICK_SECONDS), now
        count = round(self._rate * (now - start))
        name = f"{self._number:08d}.parquet"
        self._number += 1
        for stream in SCHEMAS:
            times = event_times(self._random, count, start=start, end=now)
            rows = make_rows(self._random, stream, times, users=max(1_000, 2 * self._rate))
            pq.write_table(rows, self.folder / "aside" / name, compression="zstd")
            os.replace(self.folder / "aside" / name, self.folder / stream / name)
            self.rows[stream] += count


def event_times(random: np.random.Generator, count: int, *, start: float, end: float) -> Array:
    """Return event times in microseconds in the order of arrival: most between `start` and `end`, some before."""
    times = np.sort(random.uniform(start, end, count))
    kind = random.random(count)
    late = kind < _LATE
    delayed = ~late & (kind < _LATE + _DELAYED)
    times[delayed] -= random.uniform(0, _DELAY_SECONDS, int(delayed.sum()))
    times[late] -= random.uniform(*_LATE_SECONDS, int(late.sum()))
    return np.floor(times * 1_000_000).astype(np.int64)


def make_rows(random: np.random.Generator, stream: str, times: Array, *, users: int) -> pa.Table:
    """Return rows with these event times: purchases with their prices, or ads with their lengths in seconds."""
    count, is_purchase = len(times), stream == "purchases"
    user_ids = np.floor(users * random.random(count) ** 1.5).astype(np.int64)  # low numbers are more frequent
    columns = {
        "ts": pa.array(times, pa.timestamp("us", "UTC")),
        "userID": pa.array(user_ids, mask=random.random(count) < (_GUESTS if is_purchase else 0.0)),
        "gemPack": random.integers(1, GEM_PACKS + 1, count, np.int32),
    }
    if not is_purchase:
        return pa.table(columns | {"length": random.integers(5, LONGEST_AD_SECONDS + 1, count, np.int32)})
    cents = 99 + np.floor((DEAREST_CENTS - 99 + 1) * random.random(count) ** 2).astype(np.int64)
    words = np.stack([cents, cents >> 63], axis=1)  # a decimal is a 128-bit integer, low word first
    price = pa.Decimal128Array.from_buffers(pa.decimal128(7, 2), count, [None, pa.py_buffer(words)])
    return pa.table(columns | {"price": price})
