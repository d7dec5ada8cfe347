"""Whatever the workload: a valid assignment, never worse than unshared hashing, nor below its own bound."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.planner.partitioning.choose import choose_partitioning
from weft.planner.partitioning.compile import compile_workload
from weft.planner.partitioning.problem import cost_of
from weft.planner.partitioning.workload import (
    AssignmentGrouping,
    PartitionedInput,
    PartitionedQuery,
    PartitioningLimits,
    PartitioningWorkload,
    Place,
    SharedRows,
)

STREAMS = ("s", "t")
ATTRIBUTES = ("a", "b", "c")
QUICK = PartitioningLimits(seconds=0.05, iterations=1)

inputs = st.builds(PartitionedInput, st.sampled_from(STREAMS), st.sampled_from(ATTRIBUTES))
sane_numbers = st.floats(0, 1e6)
numbers = sane_numbers | st.sampled_from([math.inf, math.nan, -1.0, 0.0])
operators = st.lists(inputs, min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def workloads(draw: st.DrawFn, rows: st.SearchStrategy[float] = numbers) -> PartitioningWorkload:
    """Queries over two streams with any statistics."""
    partitions, groups = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    places = st.builds(Place, st.sampled_from(ATTRIBUTES), st.integers(-1, groups), rows)
    shared = st.builds(SharedRows, st.sampled_from(STREAMS), st.lists(places, max_size=4).map(tuple))
    return PartitioningWorkload(
        tuple(
            PartitionedQuery(f"q{at}", tuple(draw(st.lists(operators, min_size=1, max_size=2))), draw(rows))
            for at in range(draw(st.integers(0, 6)))
        ),
        partitions,
        groups,
        loads=draw(st.dictionaries(inputs, st.lists(rows, max_size=groups + 1).map(tuple), max_size=6)),
        shared=tuple(draw(st.lists(shared, max_size=12))),
        latency=draw(st.just(()) | st.lists(rows, min_size=partitions, max_size=partitions).map(tuple)),
        processing=draw(rows),
        current=draw(st.dictionaries(inputs, st.lists(st.integers(-1, 7), max_size=groups).map(tuple), max_size=3)),
        grouping=draw(st.sampled_from(AssignmentGrouping)),
    )


@given(workloads())
@settings(max_examples=60)
def test_valid_and_never_worse_than_unshared_hashing(workload: PartitioningWorkload) -> None:
    chosen = choose_partitioning(workload, QUICK)
    for query in workload.queries:
        for operator in query.operators:
            routes = {chosen.route_of(query.name, each).partition_of for each in operator}
            assert len(routes) == 1, "the inputs of an operator are placed alike"
            assert all(0 <= at < workload.partitions for at in routes.pop())
    assert math.isfinite(chosen.cost.total)
    assert chosen.cost.total <= chosen.unshared.total * (1 + 1e-9) + 1e-9
    assert chosen.bound <= chosen.cost.total
    assert all(chosen.cost.total <= cost.total for _, cost in chosen.alternatives)


@given(workloads(sane_numbers))
@settings(max_examples=30)
def test_the_reported_cost_is_that_of_the_routes(workload: PartitioningWorkload) -> None:
    workload = replace(workload, grouping=AssignmentGrouping.PER_ATTRIBUTE)
    chosen = choose_partitioning(workload, replace(QUICK, seconds=0.02))
    compiled = compile_workload(workload)
    placement = tuple(at for route in chosen.routes for at in route.partition_of)
    assert math.isclose(cost_of(compiled.problem, placement).total, chosen.cost.total, rel_tol=1e-9, abs_tol=1e-6)


@given(workloads(sane_numbers), st.data())
@settings(max_examples=30)
def test_no_assignment_is_below_the_bound(workload: PartitioningWorkload, data: st.DataObject) -> None:
    compiled = compile_workload(workload)
    chosen = choose_partitioning(workload, QUICK)
    at = st.integers(0, workload.partitions - 1)
    items = compiled.problem.items
    placement = data.draw(st.lists(at, min_size=items, max_size=items))
    assert cost_of(compiled.problem, placement).total >= chosen.bound * (1 - 1e-6) - 1e-6
