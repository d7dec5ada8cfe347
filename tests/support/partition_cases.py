"""Small random workloads made of rows, and what an assignment of them costs, counted row by row.

Nothing here knows items, cells or models: a row is sent to every partition that one of its key groups is assigned to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random

from weft.planner.partitioning.sharing_counts import count_loads, count_shared_rows
from weft.planner.partitioning.workload import PartitionedInput, PartitionedQuery, PartitioningWorkload

Rows = dict[str, list[dict[str, int]]]
Assignment = Mapping[PartitionedInput, Sequence[int]]


def random_rows(random: Random, *, streams: int, attributes: int, groups: int, rows: int, alike: float = 0.7) -> Rows:
    """Rows whose attributes say the same with probability `alike`, some key groups being hot."""
    found: Rows = {}
    for stream in range(streams):
        twin = [[random.randrange(groups) for _ in range(groups)] for _ in range(attributes)]
        found[f"s{stream}"] = [
            {
                f"a{at}": twin[at][hot] if random.random() < alike else random.randrange(groups)
                for at in range(attributes)
            }
            for hot in (min(int(random.paretovariate(1.0)) - 1, groups - 1) for _ in range(rows))
        ]
    return found


def workload_of(
    rows: Rows,
    queries: Sequence[PartitionedQuery],
    *,
    partitions: int,
    groups: int,
    latency: tuple[float, ...] = (),
    processing: float = 1.0,
) -> PartitioningWorkload:
    """The workload with exact statistics of the rows."""
    loads: dict[PartitionedInput, tuple[float, ...]] = {}
    for stream, each in rows.items():
        loads |= count_loads(stream, each, groups)
    shared = tuple(cell for stream, each in rows.items() for cell in count_shared_rows(stream, each))
    return PartitioningWorkload(
        tuple(queries), partitions, groups, loads=loads, shared=shared, latency=latency, processing=processing
    )


def reads(name: str, *inputs: str) -> PartitionedQuery:
    """A query with one operator over inputs written stream.attribute."""
    return PartitionedQuery(name, (tuple(PartitionedInput(*each.split(".")) for each in inputs),))


def cost_by_rows(rows: Rows, workload: PartitioningWorkload, assignment: Assignment) -> float:
    """Each row sent once to each partition that needs it, plus per stream the partition with most rows to process."""
    return _cost({stream: _distinct(each) for stream, each in rows.items()}, workload, assignment)


def _distinct(rows: Sequence[dict[str, int]]) -> list[tuple[dict[str, int], int]]:
    return [(dict(row), count) for row, count in Counter(tuple(row.items()) for row in rows).items()]


def _cost(
    rows: Mapping[str, list[tuple[dict[str, int], int]]], workload: PartitioningWorkload, assignment: Assignment
) -> float:
    latency = workload.latency or (1.0,) * workload.partitions
    total = 0.0
    for stream, each in rows.items():
        load: defaultdict[int, float] = defaultdict(float)
        for row, count in each:
            wanted = set()
            for query in workload.queries:
                for one in query.inputs:
                    if one.stream == stream:
                        at = assignment[one][row[one.attribute]]
                        wanted.add(at)
                        load[at] += count * latency[at] * workload.processing
            total += count * sum(latency[at] for at in wanted)
        total += max(load.values(), default=0.0)
    return total


def all_assignments(workload: PartitioningWorkload) -> Iterator[dict[PartitionedInput, tuple[int, ...]]]:
    """Every assignment that partitions the two sides of each join alike."""
    inputs = sorted({one for query in workload.queries for one in query.inputs})
    maps = list(product(range(workload.partitions), repeat=workload.key_groups))
    for chosen in product(maps, repeat=len(inputs)):
        assignment = dict(zip(inputs, chosen, strict=True))
        operators = (operator for query in workload.queries for operator in query.operators)
        if all(len({assignment[one] for one in operator}) <= 1 for operator in operators):
            yield assignment


def brute_force(rows: Rows, workload: PartitioningWorkload) -> float:
    """The least cost of all assignments."""
    distinct = {stream: _distinct(each) for stream, each in rows.items()}
    return min(_cost(distinct, workload, each) for each in all_assignments(workload))
