"""A system and a generator at work: what can be asked of them, and the passing of time."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from weft_bench.driver.child import ChildEnded
from weft_bench.driver.feed import Feed
from weft_bench.driver.generator import file_of
from weft_bench.driver.heard import Heard
from weft_bench.driver.messages import Figures, Order, Report, StreamOrder
from weft_bench.driver.plan import CellPlan, Progress
from weft_bench.driver.releases import Command, GeneratorOrder, Hold, Passed, Rate, Saturate
from weft_bench.driver.requests import Requests
from weft_bench.driver.sampling import Sampler, to_progress
from weft_bench.driver.saturation import Ahead, first_ahead, next_ahead
from weft_bench.driver.schedule import Request
from weft_bench.driver.source import Source
from weft_bench.driver.system import System
from weft_bench.driver.watch import Watch
from weft_bench.record import Sample
from weft_bench.workloads.model import Workload

_TICK = 1.0
_REPORT_SECONDS = 20.0
_STOP_SECONDS = 20.0
_END_SECONDS = 5.0


class CellFailed(Exception):
    """A cell cannot go on; what it has found so far stands."""


class Session:
    """Both processes inside a `with`, after which they and all their descendants have ended.

    `wait` is where time passes: it takes samples, tells progress, clears away old files and raises CellFailed as soon
    as the system or the generator has failed.
    """

    def __init__(self, plan: CellPlan, workload: Workload, tell: Callable[[Progress], None]) -> None:
        self.plan = plan
        self.heard = Heard(Feed([stream.name for stream in workload.streams]))
        self.phase = ""
        self._workload = workload
        self._tell = tell
        self._feed = plan.feed_folder
        self._ahead: Ahead | None = None
        self._stop_seconds = 0.0
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A system that has failed, or that nobody wants to wait for, is not asked.
        self._stop_seconds = _STOP_SECONDS if kind is None else 0.0
        self._stack.close()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """How it went so far."""
        return tuple(self._sampler.samples)

    @property
    def began(self) -> float:
        """When the samples begin, in seconds since 1970."""
        return self._sampler.began

    @property
    def peak_memory(self) -> int:
        """Bytes."""
        return self._watch.peak

    def wait_ready(self) -> None:
        """Wait until the system takes requests and the generator has made its rows."""
        heard, limit = self.heard, self.plan.limits.start
        if not self.wait(limit, lambda: heard.ready and heard.prepared):
            who = "the system" if heard.prepared else "the generator"
            raise CellFailed(f"{who} was not ready within {limit:g} s")

    def set_rate(self, rate: float) -> None:
        """So many rows per second from now on."""
        self._stop_saturating()
        self._tell_generator(Rate(rate))

    def hold(self) -> None:
        """No rows from now on."""
        self._stop_saturating()
        self._tell_generator(Hold())

    def saturate(self, guess: float) -> None:
        """As many rows as the system passes from now on."""
        with self.heard.changed:
            passed = self.heard.feed.passed
            self._ahead = ahead = first_ahead(guess, time.time(), passed)
            self.heard.on_pulled = self._keep_ahead
        self._tell_generator(Passed(passed))
        self._tell_generator(Saturate(ahead.rows, ahead.file))

    def request(self, schedule: Iterable[Request], *, leave: bool = True) -> Requests:
        """Begin to send requests by the clock; what is still live at their end is left so, or dropped."""
        requests = Requests(schedule, self._system.send, patience=self.plan.limits.request, leave=leave)
        with self.heard.changed:
            self.heard.requests.append(requests)
        requests.start()
        return requests

    def report(self) -> Figures | None:
        """What the system says of itself; None if it does not answer."""
        try:
            self._system.send(Report())
        except ChildEnded as error:
            raise self._ended(error) from error
        self.wait(_REPORT_SECONDS, lambda: self.heard.figures is not None)
        return self.heard.figures

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass, at most until something is true (asked under the lock); whether it is."""
        heard, begin = self.heard, time.time()
        while True:
            with heard.changed:
                remaining = min(begin + seconds, self._sampler.at + _TICK) - time.time()
                heard.changed.wait_for(lambda: bool(heard.failure) or until(), max(remaining, 0.0))
                if heard.failure:
                    raise CellFailed(heard.failure)
                done = until()
            now = time.time()
            if now >= self._sampler.at + _TICK:
                self._sample(now, min((now - begin) / max(seconds, 1e-3), 1.0))
            if done or now >= begin + seconds:
                return done

    def _start(self, stack: ExitStack) -> None:
        plan, heard = self.plan, self.heard
        scratch = plan.folder / "scratch"
        for folder in (scratch, *(self._feed / stream.name for stream in self._workload.streams)):
            folder.mkdir(parents=True)
        generator = GeneratorOrder(plan.workload, str(self._feed), plan.interval, plan.profile)
        log = plan.folder / "generator.log"
        self._source = Source(generator, log=log, hear=heard.release, failed=heard.fail)
        stack.callback(lambda: self._source.stop(self._stop_seconds))
        self._system = System(
            plan.command,
            self._order(scratch),
            environment={**os.environ, **plan.environment},
            log=plan.folder / "system.log",
            hear=heard.answer,
        )
        stack.callback(lambda: self._system.stop(self._stop_seconds))
        self._watch = stack.enter_context(Watch(self._system.pid))
        self._sampler = Sampler(heard, self._watch, time.time())
        stack.callback(self._abandon_requests)

    def _order(self, scratch: Path) -> Order:
        streams = (
            StreamOrder(stream.name, str(self._feed / stream.name), dict(stream.columns), next(iter(stream.columns)))
            for stream in self._workload.streams
        )
        return Order(
            streams=tuple(streams),
            scratch=str(scratch),
            interval=self.plan.batch_interval,
            cores=self.plan.cores,
            heap_gigabytes=self.plan.heap_gigabytes,
            settings=dict(self.plan.settings),
            lateness=self._workload.lateness,
        )

    def _tell_generator(self, command: Command) -> None:
        try:
            self._source.send(command)
        except ChildEnded as error:
            raise self._ended(error) from error

    def _ended(self, error: ChildEnded) -> CellFailed:
        """Why a process ended: what is known of it by those who hear it, as soon as they do."""
        with self.heard.changed:
            self.heard.changed.wait_for(lambda: bool(self.heard.failure), _END_SECONDS)
            return CellFailed(self.heard.failure or str(error))

    def _abandon_requests(self) -> None:
        for each in self.heard.requests:
            each.abandon()

    def _stop_saturating(self) -> None:
        with self.heard.changed:
            self.heard.on_pulled = None

    def _keep_ahead(self) -> None:
        before, passed = self._ahead, self.heard.feed.passed
        if before is None or passed <= before.seen:
            return
        self._ahead = next_ahead(before, time.time(), passed)
        with contextlib.suppress(OSError):  # a generator that has ended says so itself
            self._source.send(Passed(passed))
            if self._ahead.rows != before.rows:
                self._source.send(Saturate(self._ahead.rows, self._ahead.file))

    def _sample(self, now: float, share: float) -> None:
        sample = self._sampler.take(now)
        with self.heard.changed:
            recent = now - self.heard.requested < self.plan.limits.keep
            old = self.heard.feed.removable(now - self.plan.limits.keep * (3 if recent else 1))
        for number in old:
            for stream in self._workload.streams:
                file_of(self._feed, stream.name, number).unlink(missing_ok=True)
        self._tell(to_progress(sample, system=self.plan.system, phase=self.phase, share=share))
