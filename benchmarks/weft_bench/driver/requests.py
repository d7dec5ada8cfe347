"""The queue of requests: creates and drops by the clock, acknowledged by the system, with latencies since due.

As in the thesis, the next requests are sent when the last are answered, all that are due by then together: a system
that takes long finds more of them waiting, and each waits longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from weft_bench.driver.messages import Command, Create, Drop, Gone, Live, Refused
from weft_bench.driver.schedule import Action, Request

_AT_MOST = 100
"""Requests sent together, as in the thesis."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a request; moments are seconds since 1970."""

    request: Request
    due: float
    done: float | None
    """When it took effect; None if it did not, or not in time."""
    error: str = ""

    @property
    def latency(self) -> float | None:
        """Seconds from when it was due to when it took effect."""
        return None if self.done is None else self.done - self.due


class Requests:
    """Sends requests from a thread of its own until `stop`, or until there are no more.

    Dropped is only what is live. After `stop` nothing is created, and with `leave=False` what still lives is dropped.
    """

    def __init__(
        self,
        schedule: Iterable[Request],
        send: Callable[[Command], None],
        *,
        patience: float = 60.0,
        leave: bool = True,
    ) -> None:
        self._schedule = _Lookahead(iter(schedule))
        self._send = send
        self._patience = patience
        self._leave = leave
        self._changed = threading.Condition()
        self._stopped = False
        self._waiting: dict[tuple[Action, str], Request] = {}
        self._late: dict[str, Request] = {}
        self._live: dict[str, Request] = {}
        self._begin = 0.0
        self._fates: list[Fate] = []
        self._error = ""
        self._thread = threading.Thread(target=self._work, name="requests", daemon=True)

    def start(self) -> None:
        """From now on the clock runs."""
        self._begin = time.time()
        self._thread.start()

    def answered(self, answer: Live | Gone | Refused) -> None:
        """What the system says; to be called from whichever thread hears it."""
        with self._changed:
            match answer:
                case Live(names, at):
                    for name in names:
                        self._settle(Action.CREATE, name, done=at)
                        if name in self._late:
                            self._live[name] = self._late.pop(name)
                case Gone(names, at):
                    for name in names:
                        self._settle(Action.DROP, name, done=at)
                case Refused(names, error):
                    for name in names:
                        action = Action.CREATE if (Action.CREATE, name) in self._waiting else Action.DROP
                        self._settle(action, name, error=error)
            self._changed.notify_all()

    def stop(self) -> None:
        """Send no more than what is already being waited for, and drop what is not to be left."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Wait for nothing any more: the system is gone."""
        with self._changed:
            self._stopped, self._leave = True, True
            self._waiting.clear()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    @property
    def finished(self) -> bool:
        """Whether all that was to be sent is sent and answered, or given up."""
        return self._begin > 0 and not self._thread.is_alive()

    @property
    def error(self) -> str:
        """Why requests could not be sent any more."""
        return self._error

    def fates(self) -> tuple[Fate, ...]:
        """What has become of requests so far."""
        with self._changed:
            return tuple(self._fates)

    def _work(self) -> None:
        try:
            while (due := self._next()) is not None:
                self._exchange(due)
            if not self._leave:
                moment = time.time() - self._begin
                drops = [Request(moment, Action.DROP, each.query) for each in self._live.values()]
                for first in range(0, len(drops), _AT_MOST):
                    self._exchange(drops[first : first + _AT_MOST])
        except OSError as error:
            self._error = f"requests could not be sent: {error}"

    def _next(self) -> list[Request] | None:
        """Wait for the next requests that are due; None if there will be none."""
        while True:
            with self._changed:
                first = self._schedule.first
                if self._stopped or first is None:
                    return None
                wait = self._begin + first.due - time.time()
                if wait > 0:
                    self._changed.wait(wait)
                    continue
            return self._schedule.take(time.time() - self._begin, _AT_MOST)

    def _exchange(self, requests: Sequence[Request]) -> None:
        with self._changed:
            drops = [each for each in requests if each.action is Action.DROP and each.query.name in self._live]
            creates = [each for each in requests if each.action is Action.CREATE]
            self._waiting |= {(each.action, each.query.name): each for each in (*drops, *creates)}
        if drops:
            self._send(Drop(tuple(each.query.name for each in drops)))
        if creates:
            self._send(Create(tuple(each.query for each in creates)))
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting, self._patience)
            for action, name in list(self._waiting):
                if action is Action.CREATE:
                    self._late[name] = self._waiting[action, name]
                self._settle(action, name, error=f"not answered within {self._patience:g} s")

    def _settle(self, action: Action, name: str, *, done: float | None = None, error: str = "") -> None:
        request = self._waiting.pop((action, name), None)
        if request is None:
            return
        self._fates.append(Fate(request, self._begin + request.due, done, error))
        if done is None:
            return
        if action is Action.CREATE:
            self._live[name] = request
        else:
            self._live.pop(name, None)


class _Lookahead:
    """Requests one can look at before taking them."""

    def __init__(self, requests: Iterator[Request]) -> None:
        self._requests = requests
        self.first = next(requests, None)

    def take(self, moment: float, at_most: int) -> list[Request]:
        """Those that are due; a query's drop is never taken together with its create."""
        taken: list[Request] = []
        created: set[str] = set()
        while (first := self.first) is not None and first.due <= moment and len(taken) < at_most:
            if first.action is Action.DROP and first.query.name in created:
                break
            if first.action is Action.CREATE:
                created.add(first.query.name)
            taken.append(first)
            self.first = next(self._requests, None)
        return taken
