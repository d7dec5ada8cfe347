"""The records of ended queries, kept on disk only and found by id, by name or page by page.

Live queries are in the checkpoint. `ended.sqlite` is updated before each checkpoint; queries that ended since are in
the changelog, so no record is lost, and writing a record twice is harmless. A record is kept at least as long as
results of its query, and the records of the latest `KEPT_AT_LEAST` ended queries always.

Damage is detected: each row contains a sealed copy of all its values, which is compared whenever the row is read, and
SQLite's integrity check compares rows and indexes (for columns that are searched without reading the row) at opening.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from weft.errors import DiskFull, StateCorrupt, StateUnavailable, WeftError
from weft.plan.changelog import QueryId, QueryRecord
from weft.storage.directory import Directory
from weft.storage.journal import record_from_json, record_to_json
from weft.storage.sealed_json import seal, unseal
from weft.storage.state_errors import RESTORE

ENDED_FILE = "ended.sqlite"
KEPT_AT_LEAST = 10_000
"""Number of the latest ended queries whose records are kept even when none of their results are."""
_DIGITS = 18
_READ_LATELY = 1000
"""Size of the cache of records that were recently read."""
_TABLES = """
CREATE TABLE IF NOT EXISTS ended (
    number INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL,
    name TEXT NOT NULL,
    until INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    delivered INTEGER NOT NULL,
    sealed BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS last (here INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS by_name ON ended (name, number);
CREATE INDEX IF NOT EXISTS by_turn ON ended (turn, until, delivered);
CREATE INDEX IF NOT EXISTS only_failed ON ended (name) WHERE failed;
"""
_ROW = "number, turn, name, until, failed, delivered, sealed"
_PUT = f"INSERT OR REPLACE INTO ended ({_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?)"
_LAST = f"{ENDED_FILE}/last"
"""The name with which the greatest turn is sealed."""


class EndedQueries:
    """The records of ended queries in a state directory. Thread-safe; each call opens and closes the file."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._failed: dict[str, int] = {}
        """Cache: the number of failed queries by name prefix. Every change clears it."""
        self._read: OrderedDict[int, QueryRecord] = OrderedDict()
        self._check()

    def put(self, records: Sequence[QueryRecord], *, delivered: bool = False) -> None:
        """Write records durably and atomically. `delivered` says that a sink has received all rows of their queries."""
        if records:
            with self._lock, self._opened() as file:
                self._change()
                last = _last_turn(file)
                for record in records:
                    number = query_number(record.id)
                    before = file.execute(f"SELECT {_ROW} FROM ended WHERE number = ?", (number,)).fetchone()
                    turn, was_delivered = (last + 1, False) if before is None else _checked(before)[1:]
                    last = max(last, turn)
                    file.execute(_PUT, _row(record, turn, delivered or was_delivered))
                file.execute("INSERT OR REPLACE INTO last VALUES (1, ?)", (seal(_LAST, last)[0],))

    def forget(self, before: int) -> None:
        """Remove the records of queries that ended before batch `before`, except the latest `KEPT_AT_LEAST`."""
        if not self._directory.path(ENDED_FILE).exists():
            return
        with self._lock, self._opened() as file:
            self._change()
            file.execute(
                "DELETE FROM ended WHERE turn <= (SELECT max(turn) FROM ended) - ? AND until <= ?",
                (KEPT_AT_LEAST, before),
            )

    def remove(self, queries: Collection[QueryId]) -> None:
        """Remove the records of these queries."""
        with self._lock, self._opened() as file:
            self._change()
            file.executemany("DELETE FROM ended WHERE number = ?", [(query_number(query),) for query in queries])

    def get(self, query: QueryId) -> QueryRecord | None:
        """Return the record of a query; None if there is no such record."""
        number = query_number(query)
        known = self._read.get(number)
        return known or self._one(f"SELECT {_ROW} FROM ended WHERE number = ?", number)

    def latest(self, name: str) -> QueryRecord | None:
        """Return the record of the latest query with this name; None if there is no such record."""
        return self._one(f"SELECT {_ROW} FROM ended WHERE name = ? ORDER BY number DESC LIMIT 1", name)

    def was_delivered(self, query: QueryId) -> bool:
        """Return whether a sink has received all rows of a query."""
        rows = self._rows(f"SELECT {_ROW} FROM ended WHERE number = ?", query_number(query))
        return any(_checked(row)[2] for row in rows)

    def page(self, prefix: str, *, after: int, limit: int, latest: bool = False) -> list[QueryRecord]:
        """Return up to `limit` records of queries whose names start with `prefix` and whose numbers are above `after`:
        the first ones in ascending order or, with `latest`, the last ones in descending order of number."""
        where, bounds = _beginning(prefix)
        order = "DESC" if latest else "ASC"
        text = f"SELECT {_ROW} FROM ended WHERE number > ? AND {where} ORDER BY number {order} LIMIT ?"
        return self._records(text, after, *bounds, limit)

    def over(self, stream: str) -> list[QueryId]:
        """Return the ids of queries that have read a stream."""
        queries = []
        with self._lock, self._opened(reading=True) as file:
            # SQLite filters out most other records, which avoids parsing them.
            text = f"SELECT {_ROW} FROM ended WHERE instr(sealed, ?)"
            for row in file.execute(text, (json.dumps(stream).encode(),)):
                record, *_ = _checked(row)
                if stream in record.streams:
                    queries.append(record.id)
        return queries

    def names(self, prefix: str) -> list[str]:
        """Return the names of queries that start with `prefix`."""
        where, bounds = _beginning(prefix)
        return [name for (name,) in self._rows(f"SELECT DISTINCT name FROM ended WHERE {where}", *bounds)]

    def failed(self, prefix: str) -> int:
        """Return the number of failed queries whose names start with `prefix`."""
        where, bounds = _beginning(prefix)
        with self._lock:
            if prefix not in self._failed:
                with self._opened(reading=True) as file:
                    text = f"SELECT count(*) FROM ended WHERE failed AND {where}"
                    self._failed[prefix] = int(file.execute(text, bounds).fetchone()[0])
            return self._failed[prefix]

    @property
    def last_turn(self) -> int:
        """A number that grows with each new record and never shrinks. If a checkpoint names a greater one, records are
        missing here."""
        with self._lock, self._opened(reading=True) as file:
            return _last_turn(file)

    def __len__(self) -> int:
        return self.count_without(())

    def count_without(self, queries: Collection[QueryId]) -> int:
        """Return the number of records, not counting those of `queries`."""
        text = "SELECT count(*) FROM ended WHERE number NOT IN (SELECT value FROM json_each(?))"
        ((count,),) = self._rows(text, json.dumps(list(map(query_number, queries))))
        return int(count)

    def _one(self, text: str, *values: object) -> QueryRecord | None:
        records = self._records(text, *values)
        return records[0] if records else None

    def _records(self, text: str, *values: object) -> list[QueryRecord]:
        with self._lock, self._opened(reading=True) as file:
            records = [_checked(row)[0] for row in file.execute(text, values)]
            self._read.update((query_number(record.id), record) for record in records[-_READ_LATELY:])
            while len(self._read) > _READ_LATELY:
                self._read.popitem(last=False)
        return records

    def _change(self) -> None:
        self._failed.clear()
        self._read.clear()

    def _rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, self._opened(reading=True) as file:
            return file.execute(text, values).fetchall()

    @contextmanager
    def _opened(self, *, reading: bool = False) -> Iterator[sqlite3.Connection]:
        path = self._directory.path(ENDED_FILE)
        # Reading must not create the file before a query has ended.
        place = ":memory:" if reading and not path.exists() else path
        try:
            with closing(sqlite3.connect(place)) as file, file:
                file.execute("PRAGMA synchronous = FULL")
                if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'only_failed'").fetchone():
                    file.executescript(_TABLES)
                yield file
        except sqlite3.OperationalError as error:
            raise _failed(error) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _damaged(error) from error

    def _check(self) -> None:
        """Raise StateCorrupt if the file is damaged, if indexes and rows differ, or if the latest record is missing."""
        if self._directory.path(ENDED_FILE).exists():
            with self._lock, self._opened(reading=True) as file:
                ((verdict,),) = file.execute("PRAGMA integrity_check(1)").fetchall()
                if verdict != "ok":
                    raise _damaged(ValueError(verdict))
                ((greatest,),) = file.execute("SELECT coalesce(max(turn), 0) FROM ended").fetchall()
                if greatest > _last_turn(file):
                    raise _damaged(ValueError("the last record that was written is not there"))


def is_id(text: str) -> bool:
    """Return whether a text has the form of a query id. The query need not exist."""
    number = text[1:]
    return text[:1] == "q" and number.isascii() and number.isdigit() and len(number) <= _DIGITS


def query_number(query: QueryId) -> int:
    """Return the number in a query's id. Queries are numbered in the order of their creation."""
    return int(query[1:])


def _row(record: QueryRecord, turn: int, delivered: bool) -> tuple[Any, ...]:
    """Return the row of a record: the columns to search by, and a sealed copy of everything."""
    number = query_number(record.id)
    value = {"turn": turn, "delivered": delivered, "record": record_to_json(record)}
    return (*_columns(record, turn, delivered), seal(f"{ENDED_FILE}/{number}", value)[0])


def _columns(record: QueryRecord, turn: int, delivered: bool) -> tuple[Any, ...]:
    return (query_number(record.id), turn, record.name, record.ended, bool(record.error), delivered)


def _checked(row: tuple[Any, ...]) -> tuple[QueryRecord, int, bool]:
    """Return the record in a row, its turn, and whether it was delivered. Raise StateCorrupt if the row was changed."""
    *columns, sealed = row
    try:
        value, _ = unseal(f"{ENDED_FILE}/{columns[0]}", sealed)
        record = record_from_json(value["record"])
        if tuple(columns) != _columns(record, value["turn"], value["delivered"]):
            raise ValueError(f"the row of query {record.id} is not the one that was written")
        return record, value["turn"], value["delivered"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _damaged(error) from error


def _last_turn(file: sqlite3.Connection) -> int:
    row = file.execute("SELECT sealed FROM last WHERE here = 1").fetchone()
    try:
        return 0 if row is None else int(unseal(_LAST, row[0])[0])
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(error) from error


def _beginning(prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return a SQL condition for names that start with `prefix`, and its parameters."""
    if not prefix:
        return "true", ()
    return "name >= ? AND name < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


_PASSING = frozenset({
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY,
})  # fmt: skip
"""Errors of SQLite that may pass and do not mean that the file is damaged."""


def _failed(error: sqlite3.OperationalError) -> WeftError:
    code = error.sqlite_errorcode & 0xFF  # the other bits say more about the same error
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"no space left while writing {ENDED_FILE}", hint="Free some space: it is written again.")
    if code in _PASSING:
        return StateUnavailable(
            f'state file "{ENDED_FILE}" cannot be used now',
            detail=f"{error.sqlite_errorname}: {error}.",
            hint="Nothing says that it is damaged. See to open files, memory, permissions and the disk.",
        )
    return _damaged(error)


def _damaged(error: Exception) -> StateCorrupt:
    return StateCorrupt(
        f'state file "{ENDED_FILE}" cannot be read', detail=f"{type(error).__name__}: {error}.", hint=RESTORE
    )
