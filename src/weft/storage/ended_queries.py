"""Queries that have ended: their records are on disk only, and are found by id, by name, and page by page.

A live query is in the checkpoint. When it has ended, its record goes into `ended.sqlite`, which is brought up to date
before each checkpoint: whatever ended since is in the changelog, so nothing is lost in between, and what is written
twice is the same. A record is kept for as long as results of its query are, and those that ended last in any case.

Damage is noticed: each row has all of itself sealed, which is compared whenever it is read, and whatever is found by a
column without being read is in an index, too, which is compared with the rows when the file is first opened.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from weft.errors import DiskFull, StateCorrupt
from weft.plan.changelog import QueryId, QueryRecord
from weft.storage.directory import Directory
from weft.storage.journal import record_from_json, record_to_json
from weft.storage.sealed_json import seal, unseal

ENDED_FILE = "ended.sqlite"
KEPT_AT_LEAST = 10_000
"""Records of the queries that ended last are kept, even if none of their results are."""
_DIGITS = 18
_READ_LATELY = 1000
"""Records that are kept in memory, because somebody has just asked for them."""
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
"""The name that the greatest turn is sealed with."""


class EndedQueries:
    """The records in a state directory; may be used from any thread. Each call opens the file and closes it again."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._failed: dict[str, int] = {}
        """How many failed, by the beginning of their names; emptied by every change."""
        self._read: OrderedDict[int, QueryRecord] = OrderedDict()
        self._check()

    def put(self, records: Sequence[QueryRecord], *, delivered: bool = False) -> None:
        """Write records durably, all or none; `delivered` says that a sink has had all rows of them."""
        if records:
            with self._lock, self._opened() as file:
                self._change()
                last = _last_turn(file)
                for record in records:
                    number = number_of(record.id)
                    before = file.execute(f"SELECT {_ROW} FROM ended WHERE number = ?", (number,)).fetchone()
                    turn, had_all = (last + 1, False) if before is None else _checked(before)[1:]
                    last = max(last, turn)
                    file.execute(_PUT, _row(record, turn, delivered or had_all))
                file.execute("INSERT OR REPLACE INTO last VALUES (1, ?)", (seal(_LAST, last)[0],))

    def forget(self, before: int) -> None:
        """Remove records of queries that ended before batch `before`, but for those that ended last."""
        if not self._directory.path(ENDED_FILE).exists():
            return
        with self._lock, self._opened() as file:
            self._change()
            file.execute(
                "DELETE FROM ended WHERE turn <= (SELECT max(turn) FROM ended) - ? AND until <= ?",
                (KEPT_AT_LEAST, before),
            )

    def remove(self, queries: Collection[QueryId]) -> None:
        """Remove some records."""
        with self._lock, self._opened() as file:
            self._change()
            file.executemany("DELETE FROM ended WHERE number = ?", [(number_of(query),) for query in queries])

    def get(self, query: QueryId) -> QueryRecord | None:
        """A record by its id."""
        number = number_of(query)
        known = self._read.get(number)
        return known or self._one(f"SELECT {_ROW} FROM ended WHERE number = ?", number)

    def latest(self, name: str) -> QueryRecord | None:
        """The record of the latest query that had a name."""
        return self._one(f"SELECT {_ROW} FROM ended WHERE name = ? ORDER BY number DESC LIMIT 1", name)

    def was_delivered(self, query: QueryId) -> bool:
        """Whether a sink has had all rows of it."""
        rows = self._rows(f"SELECT {_ROW} FROM ended WHERE number = ?", number_of(query))
        return any(_checked(row)[2] for row in rows)

    def page(self, prefix: str, *, after: int, limit: int, latest: bool = False) -> list[QueryRecord]:
        """Records of queries whose names begin with `prefix` and whose numbers are above `after`: the first of them in
        their order, or the latest in the opposite order."""
        where, bounds = _beginning(prefix)
        order = "DESC" if latest else "ASC"
        text = f"SELECT {_ROW} FROM ended WHERE number > ? AND {where} ORDER BY number {order} LIMIT ?"
        return self._records(text, after, *bounds, limit)

    def since(self, batch: int) -> list[QueryRecord]:
        """Records of queries that ended after a batch."""
        return self._records(f"SELECT {_ROW} FROM ended WHERE until > ? ORDER BY number", batch)

    def over(self, stream: str) -> list[QueryId]:
        """Queries that have read a stream."""
        found = []
        with self._lock, self._opened(reading=True) as file:
            # Most others are left out without being parsed.
            text = f"SELECT {_ROW} FROM ended WHERE instr(sealed, ?)"
            for row in file.execute(text, (json.dumps(stream).encode(),)):
                record, *_ = _checked(row)
                if stream in record.streams:
                    found.append(record.id)
        return found

    def names(self, prefix: str) -> list[str]:
        """Names that begin with `prefix`."""
        where, bounds = _beginning(prefix)
        return [name for (name,) in self._rows(f"SELECT DISTINCT name FROM ended WHERE {where}", *bounds)]

    def failed(self, prefix: str) -> int:
        """How many queries failed whose names begin with `prefix`."""
        where, bounds = _beginning(prefix)
        with self._lock:
            if prefix not in self._failed:
                with self._opened(reading=True) as file:
                    text = f"SELECT count(*) FROM ended WHERE failed AND {where}"
                    self._failed[prefix] = int(file.execute(text, bounds).fetchone()[0])
            return self._failed[prefix]

    @property
    def last_turn(self) -> int:
        """A number that grows with every record, and stays when records are removed: whoever noted a greater one had
        records that are not here."""
        with self._lock, self._opened(reading=True) as file:
            return _last_turn(file)

    def __len__(self) -> int:
        return self.count_without(())

    def count_without(self, queries: Collection[QueryId]) -> int:
        """How many records there are, but for those of some queries."""
        text = "SELECT count(*) FROM ended WHERE number NOT IN (SELECT value FROM json_each(?))"
        ((found,),) = self._rows(text, json.dumps(list(map(number_of, queries))))
        return int(found)

    def _one(self, text: str, *values: object) -> QueryRecord | None:
        found = self._records(text, *values)
        return found[0] if found else None

    def _records(self, text: str, *values: object) -> list[QueryRecord]:
        with self._lock, self._opened(reading=True) as file:
            found = [_checked(row)[0] for row in file.execute(text, values)]
            self._read.update((number_of(record.id), record) for record in found[-_READ_LATELY:])
            while len(self._read) > _READ_LATELY:
                self._read.popitem(last=False)
        return found

    def _change(self) -> None:
        self._failed.clear()
        self._read.clear()

    def _rows(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        with self._lock, self._opened(reading=True) as file:
            return file.execute(text, values).fetchall()

    @contextmanager
    def _opened(self, *, reading: bool = False) -> Iterator[sqlite3.Connection]:
        path = self._directory.path(ENDED_FILE)
        # Looking for records must not make a file where nothing has ended yet.
        place = ":memory:" if reading and not path.exists() else path
        try:
            with closing(sqlite3.connect(place)) as file, file:
                file.execute("PRAGMA synchronous = FULL")
                if not file.execute("SELECT 1 FROM sqlite_schema WHERE name = 'only_failed'").fetchone():
                    file.executescript(_TABLES)
                yield file
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise _damaged(error) from error
            raise DiskFull(
                f"no space left while writing {ENDED_FILE}", hint="Free some space: it is written again."
            ) from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise _damaged(error) from error

    def _check(self) -> None:
        """Whether the file is whole, and its indexes say what its rows say; raises StateCorrupt."""
        if self._directory.path(ENDED_FILE).exists():
            with self._lock, self._opened(reading=True) as file:
                ((found,),) = file.execute("PRAGMA integrity_check(1)").fetchall()
                if found != "ok":
                    raise _damaged(ValueError(found))
                ((greatest,),) = file.execute("SELECT coalesce(max(turn), 0) FROM ended").fetchall()
                if greatest > _last_turn(file):
                    raise _damaged(ValueError("the last record that was written is not there"))


def is_id(text: str) -> bool:
    """Whether a text is the id of some query, there or not."""
    number = text[1:]
    return text[:1] == "q" and number.isascii() and number.isdigit() and len(number) <= _DIGITS


def number_of(query: QueryId) -> int:
    """The number in a query's id: queries are numbered in the order in which they were created."""
    return int(query[1:])


def _row(record: QueryRecord, turn: int, delivered: bool) -> tuple[Any, ...]:
    """A record as a row: what it is found by, and all of that once more, sealed."""
    number = number_of(record.id)
    value = {"turn": turn, "delivered": delivered, "record": record_to_json(record)}
    return (*_columns(record, turn, delivered), seal(f"{ENDED_FILE}/{number}", value)[0])


def _columns(record: QueryRecord, turn: int, delivered: bool) -> tuple[Any, ...]:
    return (number_of(record.id), turn, record.name, record.ended, bool(record.error), delivered)


def _checked(row: tuple[Any, ...]) -> tuple[QueryRecord, int, bool]:
    """The record in a row, its turn, and whether a sink has had all; raises StateCorrupt if the row is not as it was
    written."""
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
    found = file.execute("SELECT sealed FROM last WHERE here = 1").fetchone()
    try:
        return 0 if found is None else int(unseal(_LAST, found[0])[0])
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(error) from error


def _beginning(prefix: str) -> tuple[str, tuple[str, ...]]:
    """A condition for names that begin with something, and its values."""
    if not prefix:
        return "true", ()
    return "name >= ? AND name < ?", (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1))


def _damaged(error: Exception) -> StateCorrupt:
    return StateCorrupt(
        f'state file "{ENDED_FILE}" cannot be read',
        detail=f"{type(error).__name__}: {error}.",
        hint="Restore the state directory from a copy, or give a new path.",
    )
