"""All that a system and a generator have said, shared between the threads that hear it and the one that measures."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import assert_never

from weft_bench.driver.feed import Feed
from weft_bench.driver.messages import Answer, Delivered, Failed, Figures, Gone, Live, Pulled, Ready, Refused
from weft_bench.driver.releases import Answer as Release
from weft_bench.driver.releases import Prepared, Released
from weft_bench.driver.requests import Requests


class Heard:
    """Everything here is read and changed under `changed`, which is told of every change."""

    def __init__(self, feed: Feed) -> None:
        self.changed = threading.Condition()
        self.feed = feed
        self.deliveries: list[Delivered] = []
        self.requests: list[Requests] = []
        self.live: set[str] = set()
        self.figures: Figures | None = None
        self.ready = False
        self.prepared = False
        self.failure = ""
        self.requested = 0.0
        """When a request was last answered."""
        self.on_pulled: Callable[[], None] | None = None
        """Called, under the lock, whenever a reader has come further."""

    def fail(self, error: str) -> None:
        """Something cannot go on; the first reason counts."""
        with self.changed:
            self.failure = self.failure or error
            self.changed.notify_all()

    def release(self, release: Release) -> None:
        """What the generator says."""
        with self.changed:
            match release:
                case Released():
                    self.feed.released(release)
                case Prepared():
                    self.prepared = True
                case _:
                    assert_never(release)
            self.changed.notify_all()

    def answer(self, answer: Answer) -> None:
        """What the system says."""
        with self.changed:
            match answer:
                case Ready():
                    self.ready = True
                case Live() | Gone() | Refused():
                    self._acknowledge(answer)
                case Pulled():
                    self.feed.pulled(answer)
                    if self.on_pulled is not None:
                        self.on_pulled()
                case Delivered():
                    self.deliveries.append(answer)
                case Figures():
                    self.figures = answer
                case Failed(error):
                    self.failure = self.failure or error
                case _:
                    assert_never(answer)
            self.changed.notify_all()

    def _acknowledge(self, answer: Live | Gone | Refused) -> None:
        self.requested = time.time()
        if isinstance(answer, Live):
            self.live |= set(answer.names)
        if isinstance(answer, Gone):
            self.live -= set(answer.names)
            self.feed.forget(answer.names)
        for requests in self.requests:
            requests.answered(answer)
