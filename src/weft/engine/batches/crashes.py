"""Batches during which the process, or Spark's Java process, has died: a note on disk that outlives both.

A query can make a batch end the process, by using up the memory of Java for example. The next process would run the
same batch with the same query. The note says which batch ran and how often that ended so, and how far the search for
the query at fault has come: a trial that ends the process has failed, and the next process goes on from there.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from weft.errors import SparkLost

_log = logging.getLogger("weft")
_FILE = "running.json"


@dataclass(frozen=True, slots=True)
class Note:
    """A batch that runs, or ran when the process died."""

    batch: int
    running: bool = False
    """Whether it runs, or is tried: if the process dies now, it has died in this batch."""
    deaths: int = 0
    """Processes that died while it ran."""
    passed: int = 0
    """The batch ends well for the queries up to this number, …"""
    failed: int | None = None
    """… and not for those up to this one; None if that is not known."""
    trying: int | None = None
    """The number up to which queries are being tried."""
    confirming: int | None = None
    """The number of the query that seems to be at fault, and is tried once more."""


class Crashes:
    """The note of a state directory.

    It is not flushed: a process that dies leaves what it has written to the system. After a failure of power it may be
    lost, or cut short, and is left out of account then.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / _FILE
        self.note: Note | None = _read(self._path)
        if self.note is not None:
            self.note = _after_death(self.note)

    def of(self, batch: int) -> Note:
        """What is known of a batch that is to be run."""
        if self.note is None or self.note.batch != batch:
            self.note = Note(batch)
        return self.note

    def begin(self, batch: int) -> None:
        """A batch is run, or tried."""
        self._write(replace(self.of(batch), running=True))

    def rest(self) -> None:
        """It has failed and the process lives; what is known of it still counts."""
        if self.note is not None:
            self._write(replace(self.note, running=False))

    def end(self) -> None:
        """It is committed, or the query at fault is found: what was known of it does not matter any more."""
        self.note = None
        with suppress(OSError):
            self._path.unlink()

    @contextmanager
    def searching(self, batch: int) -> Iterator[None]:
        """While the query at fault is looked for: a trial may end Java, or the process, and that counts."""
        self.begin(batch)
        try:
            yield
        except SparkLost:
            raise
        except BaseException:
            self.rest()
            raise
        self.end()

    def trying(self, batch: int, number: int) -> None:
        """The batch is tried for the queries up to a number."""
        self._write(replace(self.of(batch), trying=number))

    def confirming(self, batch: int, number: int) -> None:
        """The same, once more: if this ends the process too, the query of that number is at fault."""
        self._write(replace(self.of(batch), confirming=number))

    def tried(self, batch: int, number: int, *, fails: bool) -> None:
        """Such a trial for the queries up to a number has ended."""
        note = replace(self.of(batch), trying=None)
        self._write(replace(note, failed=number) if fails else replace(note, passed=max(note.passed, number)))

    def _write(self, note: Note) -> None:
        self.note = note
        try:
            self._path.write_text(json.dumps(asdict(note)), encoding="ascii")
        except OSError as error:  # the batch itself will say so, if it matters
            _log.warning("the note of the running batch cannot be written: %s", error)


def _after_death(note: Note) -> Note:
    """What a note means that a process has left behind."""
    if not note.running:
        return note
    died = replace(note, running=False, deaths=note.deaths + 1, trying=None)
    return died if note.trying is None else replace(died, failed=note.trying)


def _read(path: Path) -> Note | None:
    try:
        found = Note(**json.loads(path.read_text(encoding="ascii")))
        values = (found.batch, found.deaths, found.passed, found.failed or 0, found.trying or 0, found.confirming or 0)
        return found if all(isinstance(value, int) for value in values) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        _log.warning("the note of the running batch cannot be read, and is left out of account: %s", error)
        return None
