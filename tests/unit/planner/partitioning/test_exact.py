"""The program of eq. 1–10 finds what trying every assignment finds; `WEFT_OPTIMIZER_INSTANCES` asks for more."""

from __future__ import annotations

import os
from itertools import product
from random import Random

import pytest

from tests.support.partition_cases import (
    Rows,
    all_assignments,
    brute_force,
    cost_by_rows,
    random_rows,
    reads,
    workload_of,
)
from weft.planner.partitioning.choose import choose_partitioning, price_assignment
from weft.planner.partitioning.compile import compile_workload
from weft.planner.partitioning.ladder import climb
from weft.planner.partitioning.model import Solved, model_size, solve_exactly
from weft.planner.partitioning.problem import cost_of, lower_bound
from weft.planner.partitioning.sharing_counts import from_coefficients
from weft.planner.partitioning.workload import (
    AssignmentGrouping,
    PartitionedInput,
    PartitionedQuery,
    PartitioningLimits,
    PartitioningWorkload,
    Rung,
)

pytestmark = pytest.mark.thorough

INSTANCES = int(os.environ.get("WEFT_OPTIMIZER_INSTANCES", "150"))


def _exact(workload: PartitioningWorkload) -> Solved:
    """The program's own answer, from a start that helps it little."""
    compiled = compile_workload(workload)
    return solve_exactly(compiled.problem, compiled.hashed(), seconds=20, gap=0.0, seed=1)


def _one_stream(seed: int) -> tuple[Rows, PartitioningWorkload]:
    random = Random(seed)
    groups, partitions, attributes = random.choice([(3, 2, 2), (4, 2, 2), (2, 2, 3), (3, 3, 2), (2, 3, 2)])
    rows = random_rows(random, streams=1, attributes=attributes, groups=groups, rows=random.randrange(1, 40))
    queries = [reads(f"q{at}", f"s0.a{at % attributes}") for at in range(random.randrange(1, 5))]
    latency = tuple(random.choice([0.2, 1.0]) for _ in range(partitions)) if random.random() < 0.4 else ()
    processing = random.choice([0.0, 0.5, 1.0, 3.0])
    workload = workload_of(rows, queries, partitions=partitions, groups=groups, latency=latency, processing=processing)
    return rows, workload


@pytest.mark.parametrize("block", range(6))
def test_program_equals_brute_force_on_one_stream(block: int) -> None:
    for seed in range(block, INSTANCES, 6):
        rows, workload = _one_stream(seed)
        solved = _exact(workload)
        best = brute_force(rows, workload)
        assert solved.cost == pytest.approx(best, rel=1e-9), f"seed {seed}"
        assert solved.bound <= best + 1e-6 * best
        assert solved.bound == pytest.approx(best, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("seed", range(INSTANCES // 4))
def test_program_equals_brute_force_on_joins(seed: int) -> None:
    random = Random(1000 + seed)
    rows = random_rows(random, streams=2, attributes=2, groups=2, rows=random.randrange(1, 25))
    queries = [reads("join", "s0.a0", "s1.a0"), reads("left", "s0.a1"), reads("right", "s1.a1")]
    workload = workload_of(rows, queries[: random.randrange(1, 4)], partitions=2, groups=2)
    assert _exact(workload).cost == pytest.approx(brute_force(rows, workload), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_stream_joined_with_itself(seed: int) -> None:
    rows = random_rows(Random(seed), streams=1, attributes=2, groups=3, rows=20)
    workload = workload_of(rows, [reads("self", "s0.a0", "s0.a1")], partitions=3, groups=3)
    assert _exact(workload).cost == pytest.approx(brute_force(rows, workload), rel=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_every_cost_is_that_of_the_rows(seed: int) -> None:
    rows, workload = _one_stream(seed)
    compiled = compile_workload(workload)
    bound = lower_bound(compiled.problem)
    assignments = list(all_assignments(workload))
    for assignment in assignments[:: max(1, len(assignments) // 20)]:
        placement = compiled.placed(assignment)
        assert placement is not None
        by_rows = cost_by_rows(rows, workload, assignment)
        assert cost_of(compiled.problem, placement).total == pytest.approx(by_rows)
        assert bound <= by_rows + 1e-9


def _formula(cards: list[list[float]], shared: list[list[float]], placed: tuple[tuple[int, ...], ...]) -> float:
    """Eq. 4–10 as printed, for one stream, two partitions and every latency 1; unshared rows are sent in any case."""
    total = 0.0
    work = [0.0, 0.0]
    for group in range(len(cards[0])):
        for partition in (0, 1):
            here = [at for at in range(len(cards)) if placed[at][group] == partition]
            total += max((cards[at][group] * shared[at][group] for at in here), default=0.0)
            total += sum(cards[at][group] * (1 - shared[at][group]) for at in here)
            work[partition] += sum(cards[at][group] for at in here)
    return total + max(work)


@pytest.mark.parametrize("seed", range(30))
def test_coefficients_of_the_paper(seed: int) -> None:
    random = Random(seed)
    attributes, groups = 3, 3
    cards = [[float(random.randrange(12)) for _ in range(groups)] for _ in range(attributes)]
    shared = [[random.choice([0.0, 0.25, 1.0]) for _ in range(groups)] for _ in range(attributes)]
    names = [f"a{at}" for at in range(attributes)]
    workload = PartitioningWorkload(
        tuple(reads(f"q{at}", f"s.a{at}") for at in range(attributes)),
        2,
        groups,
        loads={PartitionedInput("s", name): tuple(rows) for name, rows in zip(names, cards, strict=True)},
        shared=from_coefficients("s", dict(zip(names, cards, strict=True)), dict(zip(names, shared, strict=True))),
    )
    maps = list(product((0, 1), repeat=groups))
    best = min(_formula(cards, shared, placed) for placed in product(maps, repeat=attributes))
    assert _exact(workload).cost == pytest.approx(best, abs=1e-9)


def test_a_hot_key_group_is_divided_by_query_if_queries_are_placed_one_by_one() -> None:
    rows: Rows = {"s": [{"a": 0}] * 12}
    queries = [reads(f"q{at}", "s.a") for at in range(4)]
    together = workload_of(rows, queries, partitions=2, groups=1, processing=2.0)
    apart = PartitioningWorkload(
        together.queries,
        2,
        1,
        loads=together.loads,
        shared=together.shared,
        processing=2.0,
        grouping=AssignmentGrouping.PER_QUERY,
    )
    assert choose_partitioning(together).cost.total == 12 + 2 * 48
    assert choose_partitioning(apart).cost.total == 2 * 12 + 2 * 24


def test_only_a_fraction_is_sent_and_processed() -> None:
    rows: Rows = {"s": [{"a": 0}] * 10}
    queries = [
        PartitionedQuery("some", ((PartitionedInput("s", "a"),),), 0.5),
        PartitionedQuery("few", ((PartitionedInput("s", "a"),),), 0.1),
    ]
    chosen = choose_partitioning(workload_of(rows, queries, partitions=1, groups=1))
    assert (chosen.cost.copies, chosen.cost.busiest) == (5.0, 6.0)
    assert chosen.unshared.copies == 6.0


def test_the_ladder_can_be_asked_for_the_exact_rung_alone() -> None:
    rows, workload = _one_stream(7)
    compiled = compile_workload(workload)
    limits = PartitioningLimits(seconds=20, gap=0.0, iterations=1, rungs=(Rung.EXACT,))
    solved, steps = climb(compiled.problem, compiled.hashed(), limits=limits)
    assert solved.cost == pytest.approx(brute_force(rows, workload))
    assert [step.rung for step in steps] == [Rung.EXACT]
    assert model_size(compiled.problem) > 0


def test_what_if_prices_the_assignment_in_effect() -> None:
    rows, workload = _one_stream(11)
    chosen = choose_partitioning(workload)
    after = PartitioningWorkload(
        workload.queries[:-1] or workload.queries,
        workload.partitions,
        workload.key_groups,
        loads=workload.loads,
        shared=workload.shared,
        current=chosen.assignment(),
        latency=workload.latency,
        processing=workload.processing,
    )
    assert price_assignment(after).total == pytest.approx(cost_by_rows(rows, after, chosen.assignment()))
    assert price_assignment(after).total <= chosen.cost.total
