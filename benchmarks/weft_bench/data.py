"""The two generated streams: one Parquet file per stream and event-second, the same bytes for the same arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

STREAMS = ("A", "B")
ATTRIBUTES = 5
DOMAIN = 500
"""Attribute values lie in 0 … DOMAIN − 1."""
START = datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "ts timestamp, k bigint, " + ", ".join(f"f{number} int" for number in range(ATTRIBUTES))
_MICROS = 1_000_000
_PRELUDE = 3600
"""Seconds before the first event."""


@dataclass(frozen=True, slots=True)
class Load:
    """How many rows a stream has per event-second, and over how many keys they spread."""

    rate: int = 200_000
    keys: int = 100_000


def second_table(load: Load, stream: int, second: int) -> pa.Table:
    """The rows of one stream in one event-second, in the order of their event time."""
    rng = np.random.default_rng((stream + 1, second + _PRELUDE))
    begin = int(START.timestamp() + second) * _MICROS
    return rows_between(rng, load, begin, begin + _MICROS)


def rows_between(rng: np.random.Generator, load: Load, begin: int, end: int) -> pa.Table:
    """`load.rate` rows with event times from `begin` to before `end` (microseconds since 1970), in their order."""
    times = np.sort(rng.integers(begin, end, load.rate))
    columns = {"ts": pa.array(times, pa.timestamp("us", "UTC")), "k": pa.array(rng.integers(0, load.keys, load.rate))}
    for number in range(ATTRIBUTES):
        columns[f"f{number}"] = pa.array(rng.integers(0, DOMAIN, load.rate).astype(np.int32))
    return pa.table(columns)


def generate(folder: Path, load: Load, seconds: int, *, streams: Sequence[str] = STREAMS) -> None:
    """Write `seconds` files per stream into folder/A and folder/B."""
    for number, name in enumerate(streams):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for second in range(seconds):
            path = file_of(folder, name, second)
            pq.write_table(second_table(load, number, second), path)
            # File sources read in the order of modification time: make it the order of event time.
            moment = (START + timedelta(seconds=second)).timestamp()
            os.utime(path, (moment, moment))


def write_prelude(folder: Path, rows: int) -> None:
    """One file per stream to warm up on: an hour before everything else, and without any key of the other stream."""
    for number, name in enumerate(STREAMS):
        (folder / name).mkdir(parents=True, exist_ok=True)
        table = second_table(Load(rows), number, -_PRELUDE)
        keys = pc.subtract(pc.negate(table["k"]), (number + 1) * 1_000_000_000)
        path = folder / name / "prelude.parquet"
        pq.write_table(table.set_column(1, "k", keys), path)
        os.utime(path, (START.timestamp() - _PRELUDE,) * 2)


def file_of(folder: Path, stream: str, second: int) -> Path:
    """Where the file of a stream's event-second lies."""
    return folder / stream / f"p{second:04d}.parquet"


def link_files(source: Path, target: Path, seconds: int, *, streams: Sequence[str] = STREAMS) -> None:
    """The first `seconds` files of each stream of `source`, under `target` too, without copying them."""
    for name in streams:
        (target / name).mkdir(parents=True, exist_ok=True)
        for second in range(seconds):
            os.link(file_of(source, name, second), file_of(target, name, second))
