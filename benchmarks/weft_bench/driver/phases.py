"""Measurements of a session: a while at one rate, a while with a queue that is never empty, and requests meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from weft_bench.driver.feed import Feed, Pass
from weft_bench.driver.latency import Arrivals, Floats, arrivals, medians
from weft_bench.driver.requests import Fate, Requests
from weft_bench.driver.schedule import in_waves
from weft_bench.driver.session import CellFailed, Session
from weft_bench.driver.sustained import Evidence, Outcome, Series, Verdict, judge
from weft_bench.record import Attempt

Span = tuple[float, float]
"""From a moment to another, in seconds since 1970."""
WARM_UP = 0.25
"""Part of every measurement that is left out."""
_SETTLE = (0.5, 5.0)
"""Seconds at least and at most for rows that were passed to reach the sink."""
_HOPELESS = 0.15
"""Seconds per second: latency that grows by more will not cease to."""
_FEWEST_PASSES = 6
_LONGER = 4
"""A system with fewer passes than that is given at most so many times as long: less says nothing of a trend."""
_EMPTY = 0.1
"""Seconds of work that are all but nothing, and the part of samples that may find the queue so."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a while at one rate has shown: of the rows due between `begin` and `end`, after the warm-up."""

    begin: float
    end: float
    rate: float
    """Rows per second that were due."""
    rows: Arrivals
    verdict: Verdict

    def to_attempt(self) -> Attempt:
        """As it is recorded."""
        return Attempt(
            rate=self.rate,
            pulled=self.verdict.pulled,
            growth=self.verdict.growth,
            latency=self.rows.event_latency(),
            sustained=self.verdict.outcome is Outcome.SUSTAINED,
            why=self.verdict.why,
        )


@dataclass(frozen=True, slots=True)
class Throughput:
    """Input rows per second while the queue was never empty."""

    begin: float
    end: float
    slowest: float
    overall: float
    passes: int
    """Times that the slowest reader has passed rows: of few, little can be said."""
    note: str = ""


def open_queries(session: Session, keep: Callable[[tuple[Fate, ...]], None]) -> None:
    """Send the first requests at the base rate, and wait until all of their queries are live."""
    plan, heard = session.plan, session.heard
    session.set_rate(plan.base)
    requests = session.request(plan.opening)
    try:
        finished = session.wait(plan.limits.opening, lambda: requests.finished)
    finally:
        keep(requests.fates())
    missing = {request.query.name for request in plan.opening} - heard.live
    if missing:
        errors = [requests.error, *(fate.error for fate in requests.fates())]
        why = next(filter(None, errors), "" if finished else f"not within {plan.limits.opening:g} s")
        raise CellFailed(f"{len(missing)} of {len(plan.opening)} queries did not become live: {why}")


def drain(session: Session) -> None:
    """No more rows until all are passed."""
    session.hold()
    limit, feed = session.plan.limits.drain, session.heard.feed
    if not session.wait(limit, lambda: feed.waiting == 0):
        raise CellFailed(
            f"could not keep up: {feed.waiting} rows were still waiting after {limit:g} s without new ones"
        )


def measure(
    session: Session, rate: float, seconds: float, *, query: str | None = None, patient: bool = False
) -> Measured:
    """So many rows per second for a while, then until they are passed; latencies of one query, or of all observed.

    With patience, a system that falls behind by a little is given as long again, and only that counts: micro-batches
    grow for a while until they are as large as the rate needs, and latency with them, but not continuously.
    """
    begin = time.time()
    session.set_rate(rate)
    full = _wait_passes(session, rate, seconds)
    span = (begin + WARM_UP * (time.time() - begin), time.time())
    if patient and not full and _may_recover(_judge(session, rate, span, since=begin)):
        full = _wait_passes(session, rate, seconds)
        span = (span[1], time.time())
    drain(session)
    session.wait(_settle_seconds(_delivered(session, span, query)))
    verdict = _judge(session, rate, span, since=begin, full=full)
    with session.heard.changed:
        due = session.heard.feed.rows_due(span[1]) - session.heard.feed.rows_due(span[0])
    return Measured(*span, due / (span[1] - span[0]), _delivered(session, span, query), verdict)


def saturate(session: Session, seconds: float, guess: float) -> Throughput:
    """As many rows as are passed for a while, longer for a system that seldom passes any, then until all are."""
    begin = time.time()
    session.saturate(guess)
    for _ in range(_LONGER):
        session.wait(seconds)
        now = time.time()
        found = _throughput(session, begin + WARM_UP * (now - begin), now)
        if _fewest_passes(session, (found.begin, now)) >= _FEWEST_PASSES:
            break
    if found.slowest <= 0:
        raise CellFailed(f"could not keep up: a reader passed nothing in {found.end - begin:.0f} s")
    drain(session)
    return found


@contextmanager
def churn(session: Session, keep: Callable[[tuple[Fate, ...]], None], *, on: bool = True) -> Iterator[None]:
    """Requests in waves inside a `with`; afterwards what they have created is dropped."""
    plan = session.plan
    if not on or plan.waves is None:
        yield
        return
    requests = session.request(in_waves(plan.pool, plan.waves), leave=False)
    try:
        yield
        _finish(session, requests)
    finally:
        keep(requests.fates())


def _finish(session: Session, requests: Requests) -> None:
    # A system that changes its queries between micro-batches needs rows to have any.
    session.set_rate(session.plan.base)
    requests.stop()
    session.wait(session.plan.limits.request * 2, lambda: requests.finished)
    drain(session)


def _wait_passes(session: Session, rate: float, seconds: float) -> bool:
    """Let time pass, more of it for a system that seldom passes rows, or until the queue is full; whether it is."""
    begin = time.time()
    for _ in range(_LONGER):
        if session.wait(seconds, lambda: session.heard.feed.waiting > session.plan.limits.queue * rate):
            return True
        now = time.time()
        if _fewest_passes(session, (begin + WARM_UP * (now - begin), now)) >= _FEWEST_PASSES:
            break
    return False


def _may_recover(verdict: Verdict) -> bool:
    return verdict.outcome is Outcome.FELL_BEHIND and verdict.growth < _HOPELESS


def _judge(session: Session, rate: float, span: Span, *, since: float, full: bool = False) -> Verdict:
    with session.heard.changed:
        feed = session.heard.feed
        chosen = [each for each in session.heard.deliveries if span[0] <= each.at <= span[1]]
        # What was due before, in another attempt, may have waited for the rows of this one.
        rows = arrivals(chosen, feed).due_between(since, span[1])
        passes = feed.frontier(*span)
        evidence = Evidence(
            rate=rate,
            latency=Series(*medians(rows.at, rows.at - rows.due, rows.count)),
            passes=passes,
            left=[feed.rows_due(each.at) - each.rows for each in passes],
            full=full,
            late=feed.late(*span),
            p99=figures.p99 if (figures := rows.event_latency()) is not None else 0.0,
        )
    return judge(evidence, session.plan.rule)


def _delivered(session: Session, span: Span, query: str | None) -> Arrivals:
    with session.heard.changed:
        chosen = [each for each in session.heard.deliveries if each.at >= span[0] and query in (None, each.query)]
        return arrivals(chosen, session.heard.feed).due_between(*span)


def _settle_seconds(rows: Arrivals) -> float:
    figures = rows.processing_latency()
    least, most = _SETTLE
    return least if figures is None else min(max(1.5 * figures.p99, least), most)


def _waiting(session: Session, span: Span) -> Floats:
    """Rows waiting whenever a sample was taken."""
    begin, end = span[0] - session.began, span[1] - session.began
    return np.array([sample.waiting for sample in session.samples if begin <= sample.at <= end], np.float64)


def _between(passes: Sequence[Pass], span: Span) -> list[Pass]:
    return [each for each in passes if span[0] <= each.at <= span[1]]


def _fewest_passes(session: Session, span: Span) -> int:
    with session.heard.changed:
        feed = session.heard.feed
        return min((len(passes) for passes in _lasting(feed, span)), default=0)


def _throughput(session: Session, begin: float, end: float) -> Throughput:
    with session.heard.changed:
        feed, live = session.heard.feed, len(session.heard.live)
        lasting = _lasting(feed, (begin, end))
    rates = [_speed(passes) for passes in lasting]
    slowest = min(rates, default=0.0)
    waiting = _waiting(session, (begin, end))
    ran_empty = bool(len(waiting)) and np.mean(waiting < _EMPTY * slowest) > _EMPTY
    return Throughput(
        begin=begin,
        end=end,
        slowest=slowest,
        # One reader for all queries, or one for each.
        overall=live * float(np.mean(rates)) if rates else 0.0,
        passes=min(map(len, lasting), default=0),
        note="the queue ran empty: the generator could not make more" if ran_empty else "",
    )


def _lasting(feed: Feed, span: Span) -> list[list[Pass]]:
    """What readers have passed between two moments, of those that were there before."""
    passes = [feed.passes(reader) for reader in feed.readers]
    return [_between(each, span) for each in passes if each[0].at <= span[0]]


def _speed(passes: Sequence[Pass]) -> float:
    """Rows per second from the first pass to the last."""
    if len(passes) < 2:
        return 0.0
    return (passes[-1].rows - passes[0].rows) / max(passes[-1].at - passes[0].at, 1e-9)
