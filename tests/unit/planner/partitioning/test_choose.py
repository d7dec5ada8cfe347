"""The choice with its explanation: an example of the kind of SASPAR's fig. 2, the current assignment, odd numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from random import Random

import pytest

from tests.support.partition_cases import Rows, random_rows, reads, workload_of
from weft.errors import InvalidSetting
from weft.planner.partitioning.choose import choose_partitioning
from weft.planner.partitioning.workload import (
    PartitionedInput,
    Partitioning,
    PartitioningLimits,
    PartitioningWorkload,
    Place,
    Rung,
    SharedRows,
    relative_gap,
)

Q1, Q2 = PartitionedInput("purchases", "gemPackID"), PartitionedInput("purchases", "userID+gemPackID")

# (key group of Q1, key group of Q2) → rows. As in fig. 2, of the six rows in G1 of Q1 three are in G1 and three in G8
# of Q2. Three sets of key groups have nothing to do with each other and eight rows each.
FIGURE = {
    (0, 0): 3, (0, 7): 3, (1, 0): 2,
    (2, 2): 4, (3, 2): 1, (3, 5): 3,
    (4, 1): 2, (5, 3): 1, (5, 4): 1, (6, 4): 2, (6, 1): 1, (7, 6): 1,
}  # fmt: skip


def _figure() -> PartitioningWorkload:
    rows: Rows = {
        "purchases": [
            {Q1.attribute: one, Q2.attribute: two} for (one, two), count in FIGURE.items() for _ in range(count)
        ]
    }
    queries = [reads("Q1", str(Q1)), reads("Q2", str(Q2))]
    return workload_of(rows, queries, partitions=3, groups=8)


def test_figure_2() -> None:
    chosen = choose_partitioning(_figure(), PartitioningLimits(gap=0.0))
    one, two = chosen.assignment()[Q1], chosen.assignment()[Q2]
    assert all(one[first] == two[second] for first, second in FIGURE), "every row is sent once"
    assert (chosen.cost.copies, chosen.cost.busiest) == (24.0, 16.0)
    assert chosen.gap == 0.0
    assert len({one[0], one[2], one[4]}) == 3, "each set of key groups has a partition of its own"
    assert chosen.unshared.copies == 48.0
    assert chosen.saved == pytest.approx(1 - 40 / chosen.unshared.total)
    hashing = dict(chosen.alternatives)[Rung.HASHING]
    assert chosen.cost.total < hashing.total < chosen.unshared.total


def test_explanation_is_plain_json() -> None:
    chosen = choose_partitioning(_figure())
    found = json.loads(json.dumps(chosen.to_json()))
    assert found["cost"] == {"copies": 24.0, "busiest": 16.0, "total": 40.0}
    assert found["routes"][0]["inputs"] == [str(Q1)]
    assert found["routes"][0]["queries"] == ["Q1"]
    assert len(found["routes"][0]["partition_of"]) == 8
    assert {"hashing"} == set(found["alternatives"])
    assert found["attempts"][0]["rung"] == "search"
    assert found["attempts"][0]["streams"] == ["purchases"]


def test_the_current_assignment_stays_if_nothing_is_better() -> None:
    workload = _figure()
    best = choose_partitioning(workload)
    renamed = {each: tuple((at + 1) % 3 for at in groups) for each, groups in best.assignment().items()}
    again = choose_partitioning(replace(workload, current=renamed))
    assert again.assignment() == renamed
    assert again.moved == 0
    assert dict(again.alternatives)[Rung.CURRENT] == best.cost


def test_little_moves_if_little_changes() -> None:
    workload = _figure()
    best = choose_partitioning(workload).assignment()
    broken = best | {Q1: (best[Q1][2], *best[Q1][1:])}
    again = choose_partitioning(replace(workload, current=broken))
    assert again.cost.total == 40.0
    assert again.moved == 1


def test_a_current_assignment_that_no_longer_fits_is_used_as_far_as_it_does() -> None:
    odd = {Q1: (99, -1, 0), PartitionedInput("gone", "x"): (0,) * 8, Q2: (0,) * 20}
    assert choose_partitioning(replace(_figure(), current=odd)).cost.total == 40.0


def test_routes_are_found_by_query_and_input() -> None:
    chosen = choose_partitioning(_figure())
    assert chosen.route_of("Q2", Q2).inputs == (Q2,)
    with pytest.raises(InvalidSetting, match='query "Q2" has no input'):
        chosen.route_of("Q2", Q1)


def test_the_same_seed_gives_the_same_answer() -> None:
    rows = random_rows(Random(9), streams=2, attributes=2, groups=4, rows=60)
    queries = [reads(f"q{at}", f"s{at % 2}.a{at // 2 % 2}") for at in range(9)]
    workload = workload_of(rows, queries, partitions=2, groups=4)
    limits = PartitioningLimits(seconds=60.0, gap=0.01, seed=3)
    assert choose_partitioning(workload, limits) == choose_partitioning(workload, limits)


def _valid(chosen: Partitioning, workload: PartitioningWorkload) -> None:
    for query in workload.queries:
        for each in query.inputs:
            groups = chosen.route_of(query.name, each).partition_of
            assert len(groups) == workload.key_groups
            assert all(0 <= at < workload.partitions for at in groups)
    numbers = (chosen.cost.total, chosen.bound, chosen.unshared.total, chosen.saved, chosen.gap)
    assert all(math.isfinite(number) for number in numbers)
    assert chosen.cost.total <= chosen.unshared.total * (1 + 1e-9)


@pytest.mark.parametrize("load", [0.0, math.inf, math.nan, -3.0, 1e300])
def test_odd_loads_give_a_valid_assignment(load: float) -> None:
    workload = _figure()
    odd = replace(workload, loads=dict(workload.loads) | {Q1: (load,) * 4 + workload.loads[Q1][4:]})
    _valid(choose_partitioning(odd, PartitioningLimits(seconds=0.3)), odd)


@pytest.mark.parametrize("loads", [{}, {Q1: ()}, {Q1: (1.0,) * 99}, {Q2: (math.inf,) * 8}])
def test_missing_loads_give_a_valid_assignment(loads: dict[PartitionedInput, tuple[float, ...]]) -> None:
    odd = replace(_figure(), loads=loads)
    _valid(choose_partitioning(odd, PartitioningLimits(seconds=0.3)), odd)


def test_odd_shared_rows_latencies_and_fractions_give_a_valid_assignment() -> None:
    workload = _figure()
    places = tuple(Place(Q1.attribute, group, rows) for group, rows in ((-1, 1.0), (99, 1.0), (0, math.nan), (1, -1.0)))
    odd = replace(
        workload,
        shared=(*workload.shared, SharedRows("purchases", places), SharedRows("gone", places)),
        latency=(0.0, math.inf, math.nan),
        processing=math.inf,
        queries=(replace(workload.queries[0], fraction=math.nan), replace(workload.queries[1], fraction=7.0)),
    )
    _valid(choose_partitioning(odd, PartitioningLimits(seconds=0.3)), odd)


def test_no_queries_one_partition_and_no_time() -> None:
    assert choose_partitioning(PartitioningWorkload((), 3, 8)).routes == ()
    alone = replace(_figure(), partitions=1)
    assert choose_partitioning(alone).cost.total == 24 + 48
    hurried = choose_partitioning(_figure(), PartitioningLimits(seconds=0.0))
    _valid(hurried, _figure())


def test_statistics_beyond_the_time_budget_are_left_out_and_the_bound_stays_true() -> None:
    full = choose_partitioning(_figure(), PartitioningLimits(gap=0.0))
    hurried = choose_partitioning(_figure(), PartitioningLimits(seconds=0.0002))
    assert hurried.cost.total >= full.cost.total
    assert hurried.bound <= full.cost.total
    _valid(hurried, _figure())


def test_a_clock_that_runs_out_ends_the_search() -> None:
    ticks = iter(range(1_000_000))
    asked = PartitioningLimits(seconds=3.0)
    hurried = choose_partitioning(_figure(), asked, clock=lambda: float(next(ticks)))
    _valid(hurried, _figure())
    assert [attempt.rung for attempt in hurried.attempts] == [Rung.SEARCH]


@pytest.mark.parametrize(("partitions", "groups", "latency"), [(0, 1, ()), (1, 0, ()), (2, 1, (1.0,))])
def test_impossible_workloads_are_refused(partitions: int, groups: int, latency: tuple[float, ...]) -> None:
    with pytest.raises(InvalidSetting):
        PartitioningWorkload((), partitions, groups, latency=latency)


@pytest.mark.parametrize("odd", [{"seconds": -1.0}, {"gap": math.nan}, {"iterations": 0}])
def test_impossible_limits_are_refused(odd: dict[str, float]) -> None:
    with pytest.raises(InvalidSetting):
        PartitioningLimits(**odd)  # type: ignore[arg-type]


def test_gap_of_nothing_is_nothing() -> None:
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(10.0, 9.0) == pytest.approx(0.1)
