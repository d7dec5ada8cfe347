"""The life of a cell: one system with one number of queries, from its start to its record."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import assert_never

from weft_bench.driver.findings import Findings
from weft_bench.driver.latency import Arrivals
from weft_bench.driver.phases import Throughput, churn, drain, measure, open_queries, saturate
from weft_bench.driver.plan import CellPlan, Churned, Phase, Progress, Quiet, Saturated, Searched, Steady
from weft_bench.driver.search import Found, NotFound, Range, Trial, Try, next_step
from weft_bench.driver.session import CellFailed, Session
from weft_bench.driver.sustained import Outcome
from weft_bench.record import Cell

_SETTLED = 8
"""Batches after which a system that grows them has them as large as it needs."""


def run_cell(plan: CellPlan, *, tell: Callable[[Progress], None]) -> Cell:
    """Run a cell; a failure of any kind is in its record, beside all that was found before.

    Only an interrupt is passed on. Whatever happens, no process is left, and of the folder only the logs.
    """
    findings = Findings()
    try:
        plan.folder.mkdir(parents=True, exist_ok=True)
        with Session(plan, plan.workload.load(), tell) as session:
            try:
                _live(session, findings)
            finally:
                findings.samples, findings.peak_memory = session.samples, session.peak_memory
    except CellFailed as error:
        findings.failure = str(error)
    except Exception as error:
        findings.failure = f"{type(error).__name__}: {error}"
    finally:
        for folder in (plan.feed_folder, plan.folder / "scratch"):
            shutil.rmtree(folder, ignore_errors=True)
    queries = len(plan.opening) if plan.queries is None else plan.queries
    return findings.to_cell(plan.system, queries)


def _live(session: Session, findings: Findings) -> None:
    session.phase = "start"
    session.wait_ready()
    session.phase = "create queries"
    open_queries(session, lambda fates: setattr(findings, "opening", fates))
    drain(session)
    for phase in session.plan.phases:
        _run_phase(session, phase, findings)
    session.phase = "report"
    findings.figures = session.report()


def _run_phase(session: Session, phase: Phase, findings: Findings) -> None:
    match phase:
        case Saturated():
            _saturated(session, phase, findings)
        case Searched():
            _searched(session, phase, findings)
        case Steady():
            _steady(session, phase, findings)
        case Quiet():
            _quiet(session, phase, findings)
        case Churned():
            _churned(session, phase, findings)
        case _:
            assert_never(phase)


def _saturated(session: Session, phase: Saturated, findings: Findings) -> None:
    session.phase = "saturate"
    # A system that is given all it can take has the longest batches: how soon queries are live is measured at one rate.
    with churn(session, lambda _: None, on=phase.churning):
        found = saturate(session, phase.seconds, session.plan.guess)
        findings.slowest, findings.overall, findings.passes = found.slowest, found.overall, found.passes
        findings.note(found.note)
        if phase.churning:
            findings.note(
                f"{_mean_live(session, found):.0f} queries were live on average while the queue was never empty"
            )
        if not findings.measured:
            findings.measured = (found.begin - session.began, found.end - session.began)


def _mean_live(session: Session, found: Throughput) -> float:
    begin, end = found.begin - session.began, found.end - session.began
    live = [sample.queries for sample in session.samples if begin <= sample.at <= end]
    return sum(live) / max(len(live), 1)


def _searched(session: Session, phase: Searched, findings: Findings) -> None:
    guess = findings.slowest or session.plan.guess
    if findings.passes < _SETTLED:
        # A system of large batches has not found their size yet: it may do better than it did.
        guess = max(guess, session.plan.guess)
    where = Range(guess, phase.width, session.plan.least, phase.most, phase.attempts)
    trials: list[Trial] = []
    with churn(session, findings.churn.extend, on=phase.churning):
        while isinstance(step := next_step(where, trials), Try):
            session.phase = f"attempt {len(trials) + 1}"
            measured = measure(session, step.rate, phase.seconds, patient=True)
            findings.attempts.append(measured.to_attempt())
            trials.append(Trial(step.rate, measured.verdict.outcome))
            # A cell that is ended before the search is keeps what was sustained until then.
            sustained = [trial.rate for trial in trials if trial.outcome is Outcome.SUSTAINED]
            findings.sustainable = max(sustained, default=None)
    match step:
        case Found(rate, why):
            findings.sustainable = rate
            findings.note(why and f"sustainable rate: {why}")
        case NotFound(why):
            raise CellFailed(f"no sustainable rate: {why}")
        case _:
            assert_never(step)


def _steady(session: Session, phase: Steady, findings: Findings) -> None:
    session.phase = "steady"
    rows = _at_one_rate(session, phase, findings)
    findings.event_latency, findings.processing_latency = rows.event_latency(), rows.processing_latency()


def _quiet(session: Session, phase: Quiet, findings: Findings) -> None:
    session.phase = "without requests"
    findings.latency_before = _at_one_rate(session, phase, findings, query=_oldest(session.plan)).event_latency()


def _churned(session: Session, phase: Churned, findings: Findings) -> None:
    session.phase = "with requests"
    with churn(session, findings.churn.extend):
        findings.latency_during = _at_one_rate(session, phase, findings, query=_oldest(session.plan)).event_latency()


def _at_one_rate(
    session: Session, phase: Steady | Quiet | Churned, findings: Findings, *, query: str | None = None
) -> Arrivals:
    """The rows of a while at one rate; that the system could not keep up with it is noted."""
    known = findings.sustainable or findings.slowest or session.plan.guess
    rate = phase.share * known if phase.rate is None else phase.rate
    measured = measure(session, rate, phase.seconds, query=query)
    findings.measured = (measured.begin - session.began, measured.end - session.began)
    if measured.verdict.outcome is not Outcome.SUSTAINED:
        findings.note(f"{session.phase}, at {rate:.0f} rows per second: {measured.verdict.why}")
    return measured.rows


def _oldest(plan: CellPlan) -> str | None:
    """The name of the first query whose rows are delivered."""
    return next((request.query.name for request in plan.opening if request.query.observed), None)
