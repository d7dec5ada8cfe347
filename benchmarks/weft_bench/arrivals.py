"""Things that arrive by the clock, whatever the engine does: files of a stream, requests for queries."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Self

import numpy as np
import pyarrow.parquet as pq

from weft.engine import Engine, Query
from weft_bench.data import STREAMS, Load, file_of, rows_between
from weft_bench.measure import WARM_UP


class Feed(ABC):
    """Lets one file per stream appear in the streams' folders every `interval`, half an interval off the clock.

    Spark's triggers fire at whole intervals of the clock; files that come between two of them are one batch.
    """

    def __init__(self, target: Path, *, files: int | None, interval: float) -> None:
        self.fed = 0
        self.interval = interval
        self._target, self._files = target, files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="file-feed", daemon=True)
        for name in STREAMS:
            (target / name).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def join(self) -> None:
        """Wait until all files have arrived."""
        self._thread.join()

    def _run(self) -> None:
        first = (time.time() // self.interval + 1.5) * self.interval
        for number in count() if self._files is None else range(self._files):
            due = first + number * self.interval
            if self._stop.wait(max(0.0, due - time.time())):
                return
            self._appear(number, due)
            self.fed = number + 1

    @abstractmethod
    def _appear(self, number: int, due: float) -> None:
        """Let a file of each stream appear that was due at a moment of the clock."""


class FileFeed(Feed):
    """Moves files that lie in `staged`."""

    def __init__(self, staged: Path, target: Path, *, seconds: int, interval: float) -> None:
        super().__init__(target, files=seconds, interval=interval)
        self._staged = staged

    def _appear(self, number: int, due: float) -> None:
        for name in STREAMS:
            staged = file_of(self._staged, name, number)
            os.utime(staged)  # file sources read in the order of modification time
            staged.rename(file_of(self._target, name, number))


class LiveFeed(Feed):
    """Generates rows as they would have come in since the file before: event time is the time of the clock."""

    def __init__(self, target: Path, load: Load, *, files: int | None = None, interval: float) -> None:
        super().__init__(target, files=files, interval=interval)
        self._load, self._rng = load, np.random.default_rng(0)

    def _appear(self, number: int, due: float) -> None:
        begin, end = (int(moment * 1_000_000) for moment in (due - self.interval, due))
        for name in STREAMS:
            written = self._target / f"{name}.writing"
            pq.write_table(rows_between(self._rng, self._load, begin, end), written)
            written.rename(file_of(self._target, name, number))


def files_waiting(engine: Engine, feed: Feed, load: Load) -> int:
    """How many files of each stream have appeared and are not processed yet."""
    done = sum(summary.rows for summary in list(engine.summaries)) // (len(STREAMS) * load.rate)
    return feed.fed - done


def wait_until_following(engine: Engine, feed: Feed, load: Load, *, patience: float) -> None:
    """Warm up until batches follow the data: some are done and no more than the newest file waits."""
    deadline = time.monotonic() + patience
    while len(engine.summaries) <= WARM_UP or files_waiting(engine, feed, load) > 1:
        if engine.error is not None:
            raise engine.error
        if time.monotonic() > deadline:
            raise TimeoutError(f"the engine cannot follow {load.rate / feed.interval:,.0f} rows per second and stream")
        time.sleep(feed.interval / 4)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request by the clock: when it was due, called, answered, and when its query was live."""

    due: float
    called: float
    returned: float
    live: float

    @property
    def latency(self) -> float:
        """From the call to being live."""
        return self.live - self.called

    @property
    def latency_since_due(self) -> float:
        """From when the call should have been made: counts waiting for earlier calls that were slow."""
        return self.live - self.due

    @property
    def call(self) -> float:
        """How long the caller was held up."""
        return self.returned - self.called


_Created = tuple[float, float, float, Query]


def create_by_the_clock(
    create: Callable[[str], Query], texts: Sequence[str], *, per_second: float, patience: float
) -> list[Arrival]:
    """Create queries at a fixed rate from a thread of its own, and see when each is live; raises what a call raises."""
    created: SimpleQueue[_Created | None] = SimpleQueue()
    with ThreadPoolExecutor(2, "arrivals") as pool:
        calls = pool.submit(_call, create, texts, per_second, created)
        seen = pool.submit(lambda: list(_see(created, patience)))
        calls.result()
        return seen.result()


def _call(
    create: Callable[[str], Query], texts: Sequence[str], per_second: float, created: SimpleQueue[_Created | None]
) -> None:
    start, pause = time.monotonic(), threading.Event()
    try:
        for number, text in enumerate(texts):
            due = start + number / per_second
            pause.wait(max(0.0, due - time.monotonic()))
            called = time.monotonic()
            query = create(text)
            created.put((due, called, time.monotonic(), query))
    finally:
        created.put(None)


def _see(created: SimpleQueue[_Created | None], patience: float) -> Iterator[Arrival]:
    """Requests take effect in the order in which they came, so one pair of eyes is enough."""
    while (item := created.get()) is not None:
        due, called, returned, query = item
        if not query.wait_live(patience):
            raise TimeoutError(f'query "{query.name}" was not live after {patience:.0f} s')
        yield Arrival(due, called, returned, time.monotonic())
