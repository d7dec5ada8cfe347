"""The rungs of algorithm 1: never below the optimum, never above their start, and close, as in SASPAR's fig. 8b."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from tests.support.partition_cases import random_rows, reads, workload_of
from weft.errors import InternalError
from weft.planner.partitioning.compile import compile_workload
from weft.planner.partitioning.ladder import Effort, climb, run_rung, search_seconds
from weft.planner.partitioning.model import Solved, solve_exactly
from weft.planner.partitioning.problem import (
    Problem,
    connected_items,
    cost_of,
    heaviest_cells,
    lower_bound,
    merge_items,
    subproblem,
)
from weft.planner.partitioning.search import cluster, greedy, improve_assignment, search
from weft.planner.partitioning.workload import LADDER, PartitioningLimits, Rung

pytestmark = pytest.mark.thorough


def _problem(seed: int, *, attributes: int = 3, groups: int = 4, partitions: int = 4, rows: int = 60) -> Problem:
    found = random_rows(Random(seed), streams=1, attributes=attributes, groups=groups, rows=rows, alike=0.9)
    queries = [reads(f"q{at}", f"s0.a{at}") for at in range(attributes)]
    return compile_workload(workload_of(found, queries, partitions=partitions, groups=groups)).problem


def _start(problem: Problem) -> Solved:
    placement = tuple(item % problem.partitions for item in range(problem.items))
    return Solved(placement, cost_of(problem, placement).total, lower_bound(problem))


@cache
def _optimum(seed: int) -> Solved:
    problem = _problem(seed)
    return solve_exactly(problem, search(problem), seconds=20, gap=0.0, seed=1)


@pytest.mark.parametrize("rung", [Rung.MERGED_KEY_GROUPS, Rung.MERGED_PARTITIONS, Rung.TREE])
def test_rungs_are_close_to_the_optimum_and_never_below_it(rung: Rung) -> None:
    accuracy = []
    for seed in range(6):
        problem, best = _problem(seed), _optimum(seed)
        found = run_rung(rung, problem, _start(problem), effort=Effort(0.4, 0.0, 1))
        if found is not None:
            assert found.cost == cost_of(problem, found.placement).total
            assert found.cost >= best.cost - 1e-6
            assert found.bound <= best.cost + 1e-6
            accuracy.append(best.cost / found.cost)
    assert len(accuracy) >= 4
    assert min(accuracy) > 0.8
    assert sum(accuracy) / len(accuracy) > 0.95


def test_search_is_close_to_the_optimum() -> None:
    accuracy = []
    for seed in range(6):
        problem = _problem(seed)
        accuracy.append(_optimum(seed).cost / cost_of(problem, search(problem)).total)
    assert max(accuracy) <= 1.0
    assert min(accuracy) > 0.85
    assert sum(accuracy) / len(accuracy) > 0.95


def test_hybrid_divides_many_queries_and_is_still_valid() -> None:
    problem = _problem(3, attributes=12, groups=2, partitions=3, rows=60)
    found = run_rung(Rung.HYBRID, problem, _start(problem), effort=Effort(1.0, 0.05, 1))
    assert found is not None
    assert set(found.placement) <= {0, 1, 2}
    assert found.cost < _start(problem).cost


def test_a_rung_without_time_or_use_says_so() -> None:
    problem = _problem(1, attributes=2, partitions=2)
    for rung in LADDER:
        assert run_rung(rung, problem, _start(problem), effort=Effort(0.0, 0.0, 1)) is None
    for rung in (Rung.MERGED_PARTITIONS, Rung.TREE, Rung.HYBRID):
        assert run_rung(rung, problem, _start(problem), effort=Effort(5.0, 0.0, 1)) is None


def test_hashing_is_no_rung() -> None:
    problem = _problem(1)
    with pytest.raises(InternalError, match="no rung"):
        run_rung(Rung.HASHING, problem, _start(problem), effort=Effort(1.0, 0.0, 1))


def test_climbing_never_ends_above_its_start() -> None:
    for seed in range(6):
        problem = _problem(seed, attributes=4, groups=6)
        start = _start(problem)
        limits = PartitioningLimits(seconds=0.3, gap=0.0, iterations=2)
        solved, steps = climb(problem, start.placement, limits=limits)
        assert solved.cost <= min([start.cost, *(step.cost for step in steps)])
        assert solved.cost == cost_of(problem, solved.placement).total
        assert solved.bound <= solved.cost


def test_climbing_stops_at_a_proven_gap() -> None:
    problem = _problem(2, attributes=2, groups=3, partitions=2)
    solved, steps = climb(problem, search(problem), limits=PartitioningLimits(seconds=20, gap=0.0))
    assert [step.rung for step in steps] == [Rung.EXACT]
    assert solved.bound == pytest.approx(solved.cost, rel=1e-6)


def test_merging_changes_no_cost() -> None:
    random = Random(5)
    for seed in range(20):
        problem = _problem(seed, attributes=3, groups=5)
        numbers: dict[int, int] = {}
        blocks = [numbers.setdefault(random.randrange(6), len(numbers)) for _ in range(problem.items)]
        coarse = merge_items(problem, blocks)
        placed = [random.randrange(problem.partitions) for _ in range(coarse.items)]
        fine = [placed[block] for block in blocks]
        assert cost_of(coarse, placed).total == pytest.approx(cost_of(problem, fine).total)


def test_clusters_keep_their_limits() -> None:
    problem = _problem(4, attributes=3, groups=8)
    load = [sum(rows for _, rows in work) for work in problem.work]
    largest = sum(load) / 4
    blocks = cluster(problem, blocks=6, largest=largest)
    assert set(blocks) == set(range(max(blocks) + 1))
    heavy = {block: sum(rows for rows, at in zip(load, blocks, strict=True) if at == block) for block in blocks}
    alone = [block for block, rows in heavy.items() if rows > largest]
    assert all(blocks.count(block) == 1 for block in alone)


def test_improving_never_costs_more() -> None:
    for seed in range(10):
        problem = _problem(seed, attributes=4, groups=6, partitions=3)
        start = _start(problem)
        once = improve_assignment(problem, start.placement, passes=1)
        assert cost_of(problem, once).total <= start.cost
        assert improve_assignment(problem, start.placement, items=0) == start.placement
        assert (
            cost_of(problem, improve_assignment(problem, greedy(problem))).total
            <= cost_of(problem, greedy(problem)).total
        )


def test_streams_without_common_queries_are_apart() -> None:
    rows = random_rows(Random(1), streams=3, attributes=2, groups=2, rows=9)
    queries = [reads("one", "s0.a0"), reads("join", "s1.a0", "s2.a1"), reads("other", "s2.a0")]
    compiled = compile_workload(workload_of(rows, queries, partitions=2, groups=2))
    found = [subproblem(compiled.problem, items).streams for items in connected_items(compiled.problem)]
    assert sorted(found) == [(0,), (1, 2)]


def test_light_cells_go_first() -> None:
    problem = _problem(6)
    thin = heaviest_cells(problem, problem.size - 10)
    assert thin.size <= problem.size - 10
    assert set(thin.cells) < set(problem.cells)
    assert heaviest_cells(problem, problem.size) is problem
    assert search_seconds(thin) < search_seconds(problem)
