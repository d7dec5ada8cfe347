"""From an experiment and options to the plan of a cell, by values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weft_bench.driver.plan import CellPlan, Churned, Limits, Quiet, Saturated, Searched, Steady
from weft_bench.driver.profile import Constant, Sinusoid
from weft_bench.driver.schedule import Action, Waves
from weft_bench.experiments import (
    EXPERIMENTS,
    Impossible,
    Mode,
    Options,
    Program,
    factory,
    first_guess,
    orders,
    phases,
    plan_cell,
    workload_of,
)
from weft_bench.workloads.model import Dialect, QuerySpec

WEFT = Program("weft", Dialect.WEFT, ("python", "-m", "weft"), {"A": "b"}, {"c": "d"}, shares=True)
FLINK = Program("flink", Dialect.FLINK, ("flink",))


def plan(name: str, queries: int, options: Options | None = None, system: Program = WEFT) -> CellPlan:
    return plan_cell(
        EXPERIMENTS[name], options or Options(), system=system, queries=queries, folder=Path("scratch")
    )  # fmt: skip


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("system", [WEFT, FLINK])
def test_every_experiment_has_a_plan(name: str, system: Program) -> None:
    found = plan(name, 3, Options(parameters={"scale": 0.01} if name == "tpch" else {}), system)
    assert (found.system, found.command, found.queries) == (system.name, system.command, 3)
    assert found.opening[0].query.observed
    assert EXPERIMENTS[name].name == name


def test_queries_come_one_by_one_in_the_words_of_the_system() -> None:
    found = plan("sc1", 3, Options(creates_per_second=4.0))
    assert [request.due for request in found.opening] == [0.0, 0.25, 0.5]
    assert {request.action for request in found.opening} == {Action.CREATE}
    assert [request.query.observed for request in found.opening] == [True, False, False]
    specs = workload_of(EXPERIMENTS["sc1"], Options()).queries(3)
    assert [request.query.text for request in found.opening] == [spec.texts[Dialect.WEFT] for spec in specs]
    assert all(request.query.newest for request in found.opening)


def test_options_reach_the_plan() -> None:
    options = Options(
        base_rate=7.0, interval=0.5, batch_interval=2.0, cores=3, heap_gigabytes=5, parameters={"keys": 11}
    )
    found = plan("sc1", 1, options)
    assert (found.base, found.interval, found.batch_interval) == (7.0, 0.5, 2.0)
    assert (found.cores, found.heap_gigabytes) == (3, 5)
    assert (found.environment, found.settings, found.folder) == ({"A": "b"}, {"c": "d"}, Path("scratch"))
    assert found.workload.parameters == {"name": "sc1", "keys": 11}
    assert found.workload.load().name == "sc1"


def test_growing_saturates_searches_and_holds() -> None:
    found = plan("sc1", 5, Options(seconds=3.0, width=0.1, attempts=4, warm_up=2.0))
    assert found.phases == (Quiet(2.0, found.guess / 4), Saturated(6.0), Searched(3.0, 0.1, 4), Steady(4.0))
    assert (found.waves, found.pool, found.profile) == (None, (), Constant())


def test_churning_keeps_one_query_and_sends_the_others_in_waves() -> None:
    found = plan("sc2", 5, Options(seconds=3.0, rate=900.0, every=6.0, life=7.0))
    assert found.phases[1:] == (Quiet(4.0, 900.0), Churned(8.0, 900.0), Saturated(8.0, churning=True))
    assert found.waves == Waves(5, 6.0, 7.0)
    assert [request.query.observed for request in found.opening] == [True]
    names = [query.name for query in found.pool]
    assert len(set(names)) == 20
    assert found.opening[0].query.name not in names
    assert not any(query.observed for query in found.pool)


def test_a_fluctuating_rate_is_measured_over_whole_periods() -> None:
    found = plan("fluctuating", 1, Options(period=6.0, swing=0.25))
    assert found.profile == Sinusoid(6.0, 0.25)
    lengths = [phase.seconds * 0.75 for phase in found.phases if isinstance(phase, Searched | Steady)]
    assert lengths == [12.0, 24.0]


def test_modes_have_phases_of_their_own() -> None:
    assert len({phases(mode, Options(), guess=1.0) for mode in Mode}) == len(Mode)


def test_observed_queries_are_as_many_as_the_workload_makes() -> None:
    found = plan("sc1", 3, Options(parameters={"observed": 2}))
    assert [request.query.observed for request in found.opening] == [True, True, False]


@pytest.mark.parametrize(("parameters", "words"), [({"nothing": 1}, "nothing"), ({"keys": "many"}, "sc1")])
def test_parameters_that_a_workload_has_not(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(Impossible, match=words):
        workload_of(EXPERIMENTS["sc1"], Options(parameters=parameters))


def test_parameters_of_the_command_line_win() -> None:
    experiment = replace(EXPERIMENTS["ajoin"], parameters={"similarity": 0.1, "ways": 3})
    made = factory(experiment, Options(parameters={"similarity": 0.9}))
    assert made.parameters == {"name": "ajoin", "similarity": 0.9, "ways": 3}


def test_what_cannot_be_said_is_impossible() -> None:
    mute = QuerySpec("q1", {}, (), why_not={Dialect.FLINK: "it has no sessions in joins"})
    said = QuerySpec("q2", {Dialect.FLINK: "SELECT 1"}, ())
    with pytest.raises(Impossible, match='query "q1" cannot be said in flink: it has no sessions in joins'):
        orders([said, mute], FLINK)
    with pytest.raises(Impossible, match="2 of 2 queries cannot be said in weft: it has no words for it"):
        orders([said, mute], WEFT)


def test_guesses_shrink_with_queries_and_less_where_work_is_shared() -> None:
    assert first_guess(WEFT, 1) > first_guess(WEFT, 1000) > first_guess(FLINK, 1) > first_guess(FLINK, 1000)


def test_options_for_the_record() -> None:
    value = Options(parameters={"keys": 3}).to_json()
    assert value["parameters"] == {"keys": 3}
    assert value["creates_per_second"] == 100.0


def test_a_bound_of_latency_is_one_of_the_queue_too() -> None:
    bounded, free = plan("sc1", 1, Options(latency_bound=2.0)), plan("sc1", 1, Options())
    assert (bounded.rule.bound, bounded.limits.queue) == (2.0, 8.0)
    assert free.limits == Limits()
    assert Options().to_json()["latency_bound"] is None
