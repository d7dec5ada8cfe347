"""The input of a soak: four streams of files in four formats, written while the service runs and removed once read."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

LATENESS_SECONDS = 2
USERS = 200
_PERIOD = 1.0
"""Seconds between two files of a stream."""
_MICROS = 1_000_000
_KEEP_READ = 15.0
"""Seconds that a file stays after it was written, even if it was read."""
_ITEMS = ("lamp", "table", "chair", "bed", "shelf", "mirror", "stool", "desk")
_WORDS = {
    "item": _ITEMS,
    "page": tuple(f"/{item}/{n}" for item in _ITEMS for n in range(3)),
    "method": ("card", "cash", "bill", "gift"),
    "country": ("de", "fr", "pl", "dk", "nl", "at"),
}
_LARGEST = {"user_id": USERS, "price": 200, "n": 9, "ms": 3000, "amount": 500, "score": 100}
_TYPES = {"TIMESTAMP": pa.timestamp("us", "UTC"), "BIGINT": pa.int64(), "INT": pa.int32(), "STRING": pa.string()}


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of files."""

    name: str
    format: str
    ddl: str

    @property
    def schema(self) -> pa.Schema:
        """As Arrow knows it."""
        fields = (column.split(" ") for column in self.ddl.split(", "))
        return pa.schema([(name, _TYPES[type_]) for name, type_ in fields])


STREAMS = (
    Source("orders", "parquet", "ts TIMESTAMP, user_id BIGINT, item STRING, price BIGINT, n INT"),
    Source("clicks", "json", "ts TIMESTAMP, user_id BIGINT, page STRING, ms INT"),
    Source("payments", "csv", "ts TIMESTAMP, user_id BIGINT, amount BIGINT, method STRING"),
    Source("visits", "arrow", "ts TIMESTAMP, user_id BIGINT, country STRING, score INT"),
)


@dataclass(slots=True)
class _Written:
    """A file that is there."""

    path: Path
    newest: int
    at: float


@dataclass(slots=True)
class _Stream:
    source: Source
    newest: int
    tables: list[pa.Table] = field(default_factory=list)
    files: deque[_Written] = field(default_factory=deque)
    written: int = 0


class Feeder:
    """Writes files of all streams every second; event times are those of the clock and only ever rise.

    All rows are kept in memory, for the comparison in the end.
    """

    def __init__(self, folder: Path, *, rows_per_second: int, seed: int) -> None:
        self._folder, self._number = folder, max(1, round(rows_per_second * _PERIOD))
        self._chance = random.Random(seed)
        now = time.time_ns() // 1000
        self._streams = {each.name: _Stream(each, now) for each in STREAMS}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.paused = False
        """Whether nothing is written for now."""
        self._thread = threading.Thread(target=self._run, name="soak-feeder", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        self._thread.join()

    @property
    def rows(self) -> int:
        """Written so far."""
        with self._lock:
            return sum(table.num_rows for each in self._streams.values() for table in each.tables)

    @property
    def files(self) -> int:
        """Written so far."""
        with self._lock:
            return sum(each.written for each in self._streams.values())

    def newest(self) -> dict[str, int]:
        """The newest event time of each stream, in microseconds."""
        with self._lock:
            return {name: each.newest for name, each in self._streams.items()}

    def tables(self) -> dict[str, pa.Table]:
        """All rows of each stream."""
        with self._lock:
            return {name: pa.concat_tables(each.tables) for name, each in self._streams.items()}

    def tidy(self, read_until: Mapping[str, int]) -> None:
        """Remove files whose rows are all committed: event times of a stream up to `read_until` are."""
        before = time.monotonic() - _KEEP_READ
        with self._lock:
            for name, until in read_until.items():
                if name not in self._streams:
                    continue  # somebody else has declared it
                files = self._streams[name].files
                while files and files[0].newest <= until and files[0].at < before:
                    with suppress(FileNotFoundError):
                        os.unlink(files.popleft().path)

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD):
            for each in () if self.paused else self._streams.values():
                self._write(each)

    def _write(self, stream: _Stream) -> None:
        now = time.time_ns() // 1000
        begin = max(stream.newest + 1, now - round(2 * _PERIOD * _MICROS))  # nothing happened during a pause
        times = sorted(self._chance.randint(begin, max(begin, now)) for _ in range(self._number))
        table = self._table(stream.source, times)
        folder = self._folder / stream.source.name
        hidden = folder / ".next"
        _save(table, hidden, stream.source.format)
        path = folder / f"{stream.written:08d}.{stream.source.format}"
        with self._lock:
            hidden.rename(path)
            stream.written += 1
            stream.newest = times[-1]
            stream.tables.append(table)
            stream.files.append(_Written(path, times[-1], time.monotonic()))

    def _table(self, source: Source, times: list[int]) -> pa.Table:
        columns = [pa.array(times, pa.timestamp("us", "UTC"))]
        for column in source.schema:
            if column.name in _WORDS:
                columns.append(pa.array(self._chance.choices(_WORDS[column.name], k=len(times))))
            elif column.name in _LARGEST:
                values = [self._chance.randrange(_LARGEST[column.name]) for _ in times]
                columns.append(pa.array(values, column.type))
        return pa.table(columns, schema=source.schema)


def _save(table: pa.Table, path: Path, format_: str) -> None:
    match format_:
        case "parquet":
            pa.parquet.write_table(table, path)
        case "arrow":
            with pa.ipc.new_file(path, table.schema) as file:
                file.write_table(table)
        case "csv":
            pa.csv.write_csv(_with_text(table), path)
        case _:
            lines = (json.dumps(row) + "\n" for row in _with_text(table).to_pylist())
            path.write_text("".join(lines), encoding="utf-8")


def _with_text(table: pa.Table) -> pa.Table:
    """Event times as ISO 8601."""
    texts = [f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z" for moment in table["ts"].to_pylist()]
    return table.set_column(0, "ts", pa.array(texts))
