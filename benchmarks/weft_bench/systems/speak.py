"""A system's end of the line to the driver: commands in, answers out, and what every system of ours does with them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import Any, Protocol, TextIO, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft_bench.driver.messages import (
    Answer,
    Command,
    Create,
    Drop,
    Failed,
    Figures,
    Order,
    QueryOrder,
    Ready,
    Refused,
    Report,
    Stop,
    from_line,
    to_line,
)

BUCKET = 10_000
"""Microseconds: event times are reported rounded down to this."""
_MANY_BUCKETS = 1 << 20
_ERROR_LENGTH = 500


class Line:
    """Reads commands on a thread of its own and says answers from any thread, each as a whole line at once."""

    def __init__(self, incoming: TextIO, outgoing: TextIO) -> None:
        self.failure = ""
        """Why the system cannot go on; empty if it can."""
        self._incoming, self._outgoing = incoming, outgoing
        self._lock = threading.Lock()
        self._commands: SimpleQueue[Command | None] = SimpleQueue()
        threading.Thread(target=self._listen, name="listen", daemon=True).start()

    def say(self, answer: Answer) -> None:
        """Tell the driver; if nobody listens any more, the end of the commands will say so."""
        with self._lock:
            try:
                self._outgoing.write(to_line(answer) + "\n")
                self._outgoing.flush()
            except BrokenPipeError:
                self._commands.put(None)

    def fail(self, error: str) -> None:
        """Say that the system cannot go on, once, and end the commands."""
        with self._lock:
            first, self.failure = not self.failure, self.failure or error
        if first:
            self.say(Failed(error))
            self._commands.put(None)

    def commands(self) -> Iterator[Command]:
        """What the driver wants, until it says `Stop`, is gone, or the system has failed."""
        while (command := self._commands.get()) is not None and not isinstance(command, Stop):
            yield command

    def _listen(self) -> None:
        try:
            for line in self._incoming:
                message = from_line(line)
                if isinstance(message, Order | Create | Drop | Report | Stop):
                    self._commands.put(message)
        except (ValueError, TypeError, KeyError) as error:
            self.fail(describe(error))
        self._commands.put(None)


def standard_line() -> Line:
    """The line over this process' standard streams; whatever else is printed from now on goes to stderr.

    The descriptor itself is turned round, since a JVM and Python workers inherit it.
    """
    sys.stdout.flush()
    outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return Line(sys.stdin, outgoing)


class System(Protocol):
    """What a system of ours does; it says `Live`, `Gone`, `Pulled` and `Delivered` itself."""

    def create(self, queries: tuple[QueryOrder, ...]) -> None:
        """Begin to create queries; raises if that is not possible, and then none is created."""

    def drop(self, names: tuple[str, ...]) -> None:
        """Begin to drop queries."""

    def figures(self) -> Figures:
        """What it knows of itself by now."""


def serve(line: Line, start: Callable[[Order, Line], AbstractContextManager[System]]) -> int:
    """Start a system as ordered, do what is asked until the end, and give the status of the process."""
    commands = line.commands()
    order = next(commands, None)
    if not isinstance(order, Order):
        line.fail("the first message was no order")
        return 1
    try:
        with start(order, line) as system:
            line.say(Ready())
            for command in commands:
                _obey(system, line, command)
    except Exception as error:
        line.fail(describe(error))
    return 1 if line.failure else 0


def _obey(system: System, line: Line, command: Command) -> None:
    match command:
        case Create(queries):
            _try(line, tuple(query.name for query in queries), lambda: system.create(queries))
        case Drop(names):
            _try(line, names, lambda: system.drop(names))
        case Report():
            line.say(system.figures())
        case Order() | Stop():
            raise ValueError("a system is ordered and stopped once")
        case _:
            assert_never(command)


def _try(line: Line, names: tuple[str, ...], request: Callable[[], None]) -> None:
    try:
        request()
    except Exception as error:
        line.say(Refused(names, describe(error)))


def describe(error: BaseException) -> str:
    """An error in a line: its kind and the first line of what it says."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else 'no message'}"[:_ERROR_LENGTH]


def newest_counts(*columns: Any) -> tuple[tuple[int, float], ...]:
    """How many rows have which event time, rounded down to buckets; that of a row is the largest in these columns.

    Rows without any are not counted.
    """
    times = [pc.cast(column, pa.timestamp("us", getattr(column.type, "tz", None))) for column in columns]
    micros = [pc.cast(column, pa.int64()) for column in times]
    if not micros:
        return ()
    newest = micros[0] if len(micros) == 1 else pc.max_element_wise(*micros)
    buckets = pc.drop_null(newest).to_numpy() // BUCKET
    if not len(buckets):
        return ()
    first = int(buckets.min())
    if int(buckets.max()) - first < _MANY_BUCKETS:
        counts = np.bincount(buckets - first)
        found, counts = np.flatnonzero(counts) + first, counts[counts > 0]
    else:
        found, counts = np.unique(buckets, return_counts=True)
    return tuple((int(bucket) * BUCKET, float(count)) for bucket, count in zip(found, counts, strict=True))
