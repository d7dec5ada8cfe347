"""A system for tests: passes rows at a known speed and delivers them after a known delay, by a clock of its own.

Its clock begins to read a file when that was written, or when it is done with the one before; how late its process
notices makes no difference to what it says. Settings, all of them texts: `capacity` rows per second; `delay` seconds
from having passed rows to having delivered them; `create` and `drop`, seconds a request takes; `readers`, "one" for all
queries or "each" for every query one of its own; `refuse`, a part of names that are refused; `fail_after` and
`die_after`, rows; `mute`, a part of names of which requests are never answered.
"""

from __future__ import annotations

import heapq
import os
import queue
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Never, TextIO, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft_bench.driver.messages import (
    Answer,
    Command,
    Create,
    Delivered,
    Drop,
    Failed,
    Figures,
    Gone,
    Live,
    Order,
    Pulled,
    QueryOrder,
    Ready,
    Refused,
    Report,
    Stop,
    from_line,
    to_line,
)

_POLL = 0.02
_STEP = 10_000
"""Microseconds: event times are told to ten milliseconds."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What is known of this system."""

    capacity: float
    delay: float
    create: float
    drop: float
    each: bool
    refuse: str
    mute: str
    fail_after: float
    die_after: float

    @classmethod
    def of(cls, order: Order) -> Settings:
        """From the settings of an order."""
        said = order.settings
        return cls(
            capacity=float(said.get("capacity", "inf")),
            delay=float(said.get("delay", "0")),
            create=float(said.get("create", "0")),
            drop=float(said.get("drop", "0")),
            each=said.get("readers", "one") == "each",
            refuse=said.get("refuse", ""),
            mute=said.get("mute", ""),
            fail_after=float(said.get("fail_after", "inf")),
            die_after=float(said.get("die_after", "inf")),
        )


class Fake:
    """Knows when it will say what, and says it when that moment has come."""

    def __init__(self, order: Order, out: TextIO) -> None:
        self._order = order
        self._settings = Settings.of(order)
        self._out = out
        self._asked: dict[str, QueryOrder] = {}
        self._live: dict[str, QueryOrder] = {}
        self._files = 0
        self._rows = 0
        self._free = 0.0
        self._later: list[tuple[float, int, Answer]] = []
        self._said = 0
        self._busy = 0.0
        self._delivered = 0

    def obey(self, command: Command) -> bool:
        """Do as told; False if this is the end."""
        match command:
            case Create(queries):
                self._asked |= {query.name: query for query in queries}
                self._request(tuple(query.name for query in queries), self._settings.create, drop=False)
            case Drop(names):
                self._request(names, self._settings.drop, drop=True)
            case Report():
                self.say(time.time(), Figures(result_rows=self._delivered, note="fake"))
            case Stop():
                return False
            case Order():
                raise ValueError("a second order")
            case _:
                assert_never(command)
        return True

    def look(self, now: float) -> None:
        """Take the files that have come, and say what is to be said by now."""
        streams = self._order.streams
        while streams and all((Path(stream.folder) / self._next_file).exists() for stream in streams):
            self._take()
        while self._later and self._later[0][0] <= now:
            _, _, answer = heapq.heappop(self._later)
            self._note(answer)
            self._out.write(to_line(answer) + "\n")
            self._out.flush()

    def say(self, moment: float, answer: Answer) -> None:
        """Say something when its moment has come."""
        self._said += 1
        heapq.heappush(self._later, (moment, self._said, answer))

    @property
    def _next_file(self) -> str:
        return f"{self._files:08d}.parquet"

    def _take(self) -> None:
        tables, written = [], 0.0
        for stream in self._order.streams:
            path = Path(stream.folder) / self._next_file
            tables.append(pq.read_table(path, columns=[stream.time])[stream.time])
            written = max(written, path.stat().st_mtime)
        rows = sum(len(table) for table in tables)
        began = max(written, self._free)
        self._free = began + rows / self._settings.capacity
        self._files += 1
        self._rows += rows
        files = {stream.name: self._files for stream in self._order.streams}
        for reader in self._live if self._settings.each else ("fake",):
            self.say(self._free, Pulled(reader, files, began, self._free))
        newest = _newest(tables)
        for query in self._live.values():
            if query.observed:
                at = self._free + self._settings.delay
                self._delivered += rows
                self.say(at, Delivered(query.name, at, newest))
        if self._rows >= self._settings.fail_after:
            self.say(self._free, Failed("fake: this was one row too many"))
        if self._rows >= self._settings.die_after:
            _die()

    def _request(self, names: tuple[str, ...], seconds: float, *, drop: bool) -> None:
        if self._settings.mute and any(self._settings.mute in name for name in names):
            return
        refused = self._settings.refuse and any(self._settings.refuse in name for name in names)
        self._busy = max(self._busy, time.time()) + seconds
        kind = Gone if drop else Live
        answer = Refused(names, "fake: refused") if refused else kind(names, self._busy)
        self.say(self._busy, answer)

    def _note(self, answer: Answer) -> None:
        match answer:
            case Live(names):
                self._live |= {name: self._asked.pop(name) for name in names}
            case Gone(names):
                for name in names:
                    self._live.pop(name, None)
            case _:
                pass


def _newest(columns: Sequence[pa.ChunkedArray]) -> tuple[tuple[int, float], ...]:
    micros = np.concatenate([column.cast(pa.int64()).to_numpy() for column in columns])
    steps, counts = np.unique(micros // _STEP, return_counts=True)
    return tuple((int(step) * _STEP, float(count)) for step, count in zip(steps, counts, strict=True))


def _die() -> Never:
    sys.stderr.write("fake: there is no way on from here\n")
    sys.stderr.flush()
    os._exit(3)


def main(lines: TextIO, out: TextIO) -> None:
    """Be the system that the first line orders."""
    order = from_line(lines.readline().strip())
    if not isinstance(order, Order):
        raise ValueError("the first line has to be an order")
    commands: queue.Queue[Command] = queue.Queue()

    def listen() -> None:
        for line in lines:
            message = from_line(line.strip())
            if isinstance(message, Create | Drop | Report | Stop):
                commands.put(message)
        commands.put(Stop())

    threading.Thread(target=listen, name="commands", daemon=True).start()
    fake = Fake(order, out)
    fake.say(time.time(), Ready())
    while True:
        try:
            if not fake.obey(commands.get(timeout=_POLL)):
                return
        except queue.Empty:
            pass
        fake.look(time.time())


if __name__ == "__main__":
    print("fake: a line that is no message", flush=True)
    main(sys.stdin, sys.stdout)
