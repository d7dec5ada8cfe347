"""Things that arrive by the clock, whatever the engine does: files of a stream, requests for queries."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from weft.bench.data import STREAMS, file_of
from weft.engine import Query


class FileFeed:
    """Moves one staged file per stream into the streams' folders every `interval`, half an interval off the clock.

    Spark's triggers fire at whole intervals of the clock; files that come between two of them are one batch.
    """

    def __init__(self, staged: Path, target: Path, *, seconds: int, interval: float) -> None:
        self.fed = 0
        self._staged, self._target, self._seconds, self._interval = staged, target, seconds, interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="file-feed", daemon=True)
        for name in STREAMS:
            (target / name).mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> FileFeed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def join(self) -> None:
        """Wait until all files have arrived."""
        self._thread.join()

    def _run(self) -> None:
        first = (time.time() // self._interval + 1.5) * self._interval
        for second in range(self._seconds):
            if self._stop.wait(max(0.0, first + second * self._interval - time.time())):
                return
            for name in STREAMS:
                staged = file_of(self._staged, name, second)
                os.utime(staged)  # file sources read in the order of modification time
                staged.rename(file_of(self._target, name, second))
            self.fed = second + 1


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
