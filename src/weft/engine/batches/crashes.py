"""A note on disk about the running batch, which outlives the process and Spark's Java process.

A query can make a batch kill the process, for example by exhausting Java's memory, and the next process would run the
same batch with the same query. The note contains the batch, how many processes died in it, and how far the search for
the query at fault has come: a trial that kills the process counts as failed, and the next process continues there.
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
    """The note about a batch that runs, or that ran when the process died."""

    batch: int
    running: bool = False
    """Whether the batch runs or is tried: if the process dies now, it dies in this batch."""
    deaths: int = 0
    """Number of processes that died while the batch ran."""
    passed: int = 0
    """The batch succeeds for the queries up to this number."""
    failed: int | None = None
    """The batch fails for the queries up to this number; None if unknown."""
    trying: int | None = None
    """The current trial runs the batch for the queries up to this number."""
    confirming: int | None = None
    """The number of the query that seems to be at fault and is tried once more."""


class Crashes:
    """The note of a state directory.

    The note is not flushed to disk: what a process has written survives its death. After a power failure the note may
    be lost or truncated, and is then ignored.
    """

    def __init__(self, root: Path) -> None:
        self._path = root / _FILE
        self.note: Note | None = _read(self._path)
        if self.note is not None:
            self.note = _after_death(self.note)

    def of(self, batch: int) -> Note:
        """Return the note about a batch; start a new note if the current one is about another batch."""
        if self.note is None or self.note.batch != batch:
            self.note = Note(batch)
        return self.note

    def begin(self, batch: int) -> None:
        """Record that a batch is run or tried."""
        self._write(replace(self.of(batch), running=True))

    def rest(self) -> None:
        """Record that the batch failed and the process lives. The other fields of the note stay valid."""
        if self.note is not None:
            self._write(replace(self.note, running=False))

    def end(self) -> None:
        """Remove the note, because the batch is committed or the query at fault is found."""
        self.note = None
        with suppress(OSError):
            self._path.unlink()

    @contextmanager
    def searching(self, batch: int) -> Iterator[None]:
        """Mark a batch as running while the query at fault is searched for: a trial may kill Java or the process."""
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
        """Record that the batch is tried for the queries up to a number."""
        self._write(replace(self.of(batch), trying=number))

    def confirming(self, batch: int, number: int) -> None:
        """Record the last trial: if it kills the process as well, the query of that number is at fault."""
        self._write(replace(self.of(batch), confirming=number))

    def tried(self, batch: int, number: int, *, fails: bool) -> None:
        """Record the outcome of a trial for the queries up to a number."""
        note = replace(self.of(batch), trying=None)
        self._write(replace(note, failed=number) if fails else replace(note, passed=max(note.passed, number)))

    def _write(self, note: Note) -> None:
        self.note = note
        try:
            self._path.write_text(json.dumps(asdict(note)), encoding="ascii")
        except OSError as error:  # if the disk has a problem, the batch reports it
            _log.warning("the note of the running batch cannot be written: %s", error)


def _after_death(note: Note) -> Note:
    """Return the note of an earlier process, updated: if its batch was running, the process died in that batch."""
    if not note.running:
        return note
    died = replace(note, running=False, deaths=note.deaths + 1, trying=None)
    return died if note.trying is None else replace(died, failed=note.trying)


def _read(path: Path) -> Note | None:
    try:
        note = Note(**json.loads(path.read_text(encoding="ascii")))
        values = (note.batch, note.deaths, note.passed, note.failed or 0, note.trying or 0, note.confirming or 0)
        return note if all(isinstance(value, int) for value in values) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        _log.warning("the note of the running batch cannot be read, and is left out of account: %s", error)
        return None
