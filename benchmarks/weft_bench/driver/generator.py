"""A process that puts the rows of all streams into files by the clock, whatever the system does with them.

The first line on standard input is a `GeneratorOrder`, the others are commands; answers go to standard output.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO, assert_never

import pyarrow as pa
import pyarrow.parquet as pq

from weft_bench.driver.profile import Constant, Profile, amount
from weft_bench.driver.releases import (
    Answer,
    Command,
    End,
    GeneratorOrder,
    Hold,
    Passed,
    Prepared,
    Rate,
    Released,
    Saturate,
    from_line,
    order_from_line,
    to_line,
)
from weft_bench.driver.rows import Rows, event_micros
from weft_bench.workloads.model import Workload

_MAKING = "_making"


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows are due: `base` when it began, then `rate` per second times the profile."""

    base: float = 0.0
    began: float = 0.0
    rate: float = 0.0
    profile: Profile = field(default_factory=Constant)

    def position(self, moment: float) -> float:
        """Rows due by a moment, all streams together, since the very beginning."""
        return self.base + self.rate * amount(self.profile, max(moment - self.began, 0.0))


def file_of(feed: Path, stream: str, number: int) -> Path:
    """Where systems find a file of a stream."""
    return feed / stream / f"{number:08d}.parquet"


class Files:
    """Puts rows into files: those of all streams up to a position, the same number of files for each."""

    def __init__(self, workload: Workload, feed: Path) -> None:
        self._workload = workload
        self._feed = feed
        self._rows = {
            stream.name: Rows(stream, seed=number + 1, rows_per_second=workload.rows_per_second * stream.share)
            for number, stream in enumerate(workload.streams)
        }
        self._ends = dict.fromkeys(self._rows, 0)
        self._event = event_micros(0, workload.rows_per_second)
        self._number = 0
        for name in (*self._rows, _MAKING):
            (feed / name).mkdir(parents=True, exist_ok=True)

    @property
    def total(self) -> int:
        """Rows put into files so far."""
        return sum(self._ends.values())

    def put(self, position: float, due: tuple[float, float], tick: float) -> Released | None:
        """Files up to a position; None, and nothing done, if a stream would have no row in its file."""
        ends = {stream.name: math.floor(position * stream.share + 1e-6) for stream in self._workload.streams}
        if any(ends[name] <= self._ends[name] for name in ends):
            return None
        made = {name: self._write(name, ends[name]) for name in ends}
        for name, path in made.items():
            path.rename(file_of(self._feed, name, self._number))
        event = (self._event, event_micros(position, self._workload.rows_per_second))
        rows = {name: (self._ends[name], ends[name]) for name in ends}
        at = time.time()
        released = Released(self._number, rows, event, due=due, at=at, late=at - tick)
        self._number, self._ends, self._event = self._number + 1, ends, event[1]
        return released

    def _write(self, name: str, end: int) -> Path:
        path = self._feed / _MAKING / f"{name}.parquet"
        table = self._rows[name].between(self._ends[name], end)
        pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
        return path


class Generator:
    """Does what commands say; the clock comes in with each call."""

    def __init__(self, files: Files, order: GeneratorOrder, say: Callable[[Answer], None]) -> None:
        self._files = files
        self._order = order
        self._say = say
        self._pace = Pace()
        self._since = 0.0
        self._saturate: Saturate | None = None
        self._passed = 0

    @property
    def saturating(self) -> bool:
        """Whether files come as the system passes them, and not by the clock."""
        return self._saturate is not None

    def obey(self, command: Command, now: float) -> bool:
        """Do as told; False if this is the end."""
        match command:
            case Rate(rate):
                self._change(now, rate)
            case Hold():
                self._change(now, 0.0)
            case Saturate():
                if self._saturate is None:
                    self._change(now, 0.0)
                self._saturate = command
            case Passed(rows):
                self._passed = rows
            case End():
                return False
            case _:
                assert_never(command)
        return True

    def tick(self, now: float, tick: float) -> bool:
        """Release what is due `now`, which should have been at `tick`; whether there is more to do at once."""
        if self._saturate is None:
            self._release(self._pace.position(now), now, tick)
            return False
        if self._files.total - self._passed >= self._saturate.ahead:
            return False
        self._pace = Pace(base=self._pace.base + max(self._saturate.file, 1.0))
        self._release(self._pace.base, now, now)
        return True

    def _change(self, now: float, rate: float) -> None:
        # What was due until now was so at the rate before: it gets a file of its own.
        position = self._pace.position(now)
        self._release(position, now, now)
        self._saturate = None
        self._since = now
        self._pace = Pace(position, now, rate, self._order.profile)

    def _release(self, position: float, now: float, tick: float) -> None:
        released = self._files.put(position, (self._since, now), tick)
        if released is not None:
            self._since = now
            self._say(released)


def run(generator: Generator, commands: queue.Queue[Command], interval: float) -> None:
    """Obey and tick by the clock until the end."""
    tick = time.time()
    while True:
        try:
            command = commands.get(timeout=max(tick - time.time(), 0.0))
        except queue.Empty:
            more = generator.tick(time.time(), tick)
            # After a long write the next file is due at once, but there is never a second one for the same tick.
            tick = time.time() if more else max(tick + interval, time.time())
        else:
            if not generator.obey(command, time.time()):
                return
            if generator.saturating:
                tick = time.time()


def main(lines: TextIO, out: TextIO) -> None:
    """Be the generator that the first line orders."""
    order = order_from_line(lines.readline())
    pa.set_cpu_count(1)

    def say(answer: Answer) -> None:
        out.write(to_line(answer) + "\n")
        out.flush()

    commands: queue.Queue[Command] = queue.Queue()

    def listen() -> None:
        for line in lines:
            message = from_line(line)
            if not isinstance(message, Prepared | Released):
                commands.put(message)
        commands.put(End())

    generator = Generator(Files(order.workload.load(), Path(order.feed)), order, say)
    threading.Thread(target=listen, name="commands", daemon=True).start()
    say(Prepared())
    run(generator, commands, order.interval)


if __name__ == "__main__":
    main(sys.stdin, sys.stdout)
