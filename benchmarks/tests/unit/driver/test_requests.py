from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import takewhile

import pytest

from benchmarks.tests.unit.driver.tiny import query
from weft_bench.driver.child import ChildEnded
from weft_bench.driver.findings import Findings, latency_of, mean_cores, query_throughput
from weft_bench.driver.messages import Command, Create, Drop, Gone, Live, Refused
from weft_bench.driver.requests import Fate, Requests
from weft_bench.driver.schedule import Action, Request, Waves, all_at_once, in_waves, one_by_one
from weft_bench.record import Sample

PATIENCE = 60.0


class Desk:
    """Takes requests, and answers by a rule, from a thread of its own as a system does."""

    def __init__(self, answer: Callable[[Command], Live | Gone | Refused | None]) -> None:
        self.taken: list[Command] = []
        self.requests: Requests | None = None
        self._answer = answer

    def send(self, command: Command) -> None:
        self.taken.append(command)
        assert self.requests is not None
        answer = self._answer(command)
        if answer is not None:
            threading.Thread(target=self.requests.answered, args=(answer,)).start()

    def serve(self, schedule: object, **more: object) -> Requests:
        self.requests = Requests(schedule, self.send, **({"patience": PATIENCE} | more))  # type: ignore[arg-type]
        self.requests.start()
        return self.requests


def at_once(command: Command) -> Live | Gone | None:
    match command:
        case Create(queries):
            return Live(tuple(each.name for each in queries), time.time())
        case Drop(names):
            return Gone(names, time.time())
        case _:
            return None


def finish(requests: Requests) -> tuple[Fate, ...]:
    requests._thread.join(PATIENCE)
    assert requests.finished
    return requests.fates()


def test_requests_are_sent_when_they_are_due_and_not_before() -> None:
    desk = Desk(at_once)
    fates = finish(desk.serve(one_by_one([query(f"q{number}") for number in range(5)], per_second=20)))
    assert [fate.request.query.name for fate in fates] == [f"q{number}" for number in range(5)]
    assert all(fate.latency is not None and fate.latency >= 0 for fate in fates)
    assert fates[-1].due - fates[0].due == pytest.approx(0.2)


def test_a_slow_system_finds_more_waiting_and_each_waits_longer() -> None:
    held = threading.Event()

    def slow(command: Command) -> Live | None:
        if len(desk.taken) == 1:
            held.wait(0.5)
        answer = at_once(command)
        assert not isinstance(answer, Gone)
        return answer

    desk = Desk(slow)
    fates = finish(desk.serve(one_by_one([query(f"q{number}") for number in range(10)], per_second=50)))
    sizes = [len(each.queries) for each in desk.taken if isinstance(each, Create)]
    assert sizes[0] < 10
    assert max(sizes[1:]) > 1
    assert sum(sizes) == 10
    latencies = [fate.latency or 0.0 for fate in fates]
    assert latencies[0] >= 0.5
    assert latencies[1] >= 0.4


def test_no_more_than_a_hundred_at_once() -> None:
    desk = Desk(at_once)
    finish(desk.serve(all_at_once([query(f"q{number}") for number in range(250)])))
    assert [len(each.queries) for each in desk.taken if isinstance(each, Create)] == [100, 100, 50]


def test_what_is_refused_has_no_latency_and_is_never_dropped() -> None:
    requests = [Request(0.0, Action.CREATE, query("bad")), Request(0.0, Action.DROP, query("bad"))]
    desk = Desk(lambda _: Refused(("bad",), "no such column"))
    fates = finish(desk.serve(requests))
    assert [(fate.done, fate.error) for fate in fates] == [(None, "no such column")]
    assert len(desk.taken) == 1


def test_a_refused_drop_is_one() -> None:
    requests = [Request(0.0, Action.CREATE, query("q")), Request(0.0, Action.DROP, query("q"))]
    desk = Desk(lambda command: at_once(command) if isinstance(command, Create) else Refused(("q",), "busy"))
    fates = finish(desk.serve(requests))
    assert [(fate.request.action.value, fate.error) for fate in fates] == [("create", ""), ("drop", "busy")]


def test_what_is_not_answered_in_time_is_given_up_but_dropped_if_it_lives_after_all() -> None:
    def late(command: Command) -> Live | Gone | None:
        match command:
            case Create(queries) if queries[0].name == "next":
                assert desk.requests is not None
                desk.requests.answered(Live(("late",), time.time()))
                return at_once(command)
            case Create():
                return None
            case _:
                return at_once(command)

    desk = Desk(late)
    schedule = [Request(0.0, Action.CREATE, query("late")), Request(0.1, Action.CREATE, query("next"))]
    schedule.append(Request(0.2, Action.DROP, query("late")))
    fates = finish(desk.serve(schedule, patience=0.05))
    assert [(fate.request.query.name, fate.done is None) for fate in fates] == [
        ("late", True),
        ("next", False),
        ("late", False),
    ]
    assert "not answered within 0.05 s" in fates[0].error


def test_waves_are_dropped_at_the_end() -> None:
    desk = Desk(at_once)
    requests = desk.serve(in_waves([query("q")], Waves(number=2, every=0.05, living=0.08)), leave=False)
    while len(requests.fates()) < 8:
        threading.Event().wait(0.01)
    requests.stop()
    fates = finish(requests)
    by_action = {
        action: {fate.request.query.name for fate in fates if fate.request.action is action} for action in Action
    }
    assert by_action[Action.CREATE] == by_action[Action.DROP]
    assert all(fate.done is not None for fate in fates)


def test_a_system_that_is_gone_is_not_waited_for() -> None:
    desk = Desk(lambda _: None)
    requests = desk.serve(all_at_once([query("q")]))
    while not desk.taken:
        threading.Event().wait(0.01)
    requests.abandon()
    assert requests.finished


def test_a_system_that_takes_no_requests_is_an_error() -> None:
    def gone(_: Command) -> None:
        raise ChildEnded("process 7 has ended")

    requests = Requests(all_at_once([query("q")]), gone)
    requests.start()
    finish(requests)
    assert requests.error == "requests could not be sent: process 7 has ended"


def fate(action: Action, due: float, done: float | None) -> Fate:
    return Fate(Request(due, action, query("q")), due, done, "" if done else "refused")


def test_figures_of_requests() -> None:
    fates = [
        fate(Action.CREATE, 10.0, 10.5),
        fate(Action.CREATE, 11.0, 12.5),
        fate(Action.CREATE, 12.0, None),
        fate(Action.DROP, 13.0, 13.1),
    ]
    created, dropped = latency_of(fates, Action.CREATE), latency_of(fates, Action.DROP)
    assert created is not None
    assert dropped is not None
    assert (created.count, created.average, created.most) == (2, 1.0, 1.5)
    assert dropped.average == pytest.approx(0.1)
    assert query_throughput(fates) == pytest.approx(2 / 2.5)
    assert query_throughput(fates[2:]) is None


def test_what_came_in_waves_is_shown_and_all_refusals_are_counted() -> None:
    findings = Findings(opening=(fate(Action.CREATE, 1.0, 9.0), fate(Action.CREATE, 1.0, None)))
    cell = findings.to_cell("fake", 2)
    assert cell.deployment is not None
    assert (cell.deployment.most, cell.removal, cell.refused) == (8.0, None, 1)
    findings.churn = [fate(Action.CREATE, 10.0, 10.5), fate(Action.DROP, 10.0, None)]
    findings.note("")
    findings.note("a note")
    cell = findings.to_cell("fake", 2)
    assert cell.deployment is not None
    assert (cell.deployment.most, cell.refused, cell.note) == (
        0.5,
        2,
        "a note; 2 requests did not take effect, such as: refused",
    )


def test_processor_time_is_that_of_the_measured_part() -> None:
    samples = [Sample(float(at), 0, 0, 0, None, 0, 0, cores=float(at)) for at in range(10)]
    assert mean_cores(samples, (3.0, 5.0)) == 4.0
    assert mean_cores(samples, None) == 4.5
    assert mean_cores([], None) is None


def test_waves_end_somewhere_for_those_who_look_that_far() -> None:
    seen = list(takewhile(lambda each: each.due < 3, in_waves([query("q")], Waves(1, 1, 1))))
    assert [each.action.value for each in seen] == ["create", "drop", "create", "drop", "create"]
