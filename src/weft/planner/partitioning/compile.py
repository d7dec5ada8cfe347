"""Compilation of a workload, with any statistics, to a problem with finite numbers, and of placements to routes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.planner.disjoint_sets import disjoint_sets
from weft.planner.partitioning.problem import Cell, Placement, Problem, merge_cells
from weft.planner.partitioning.workload import (
    AssignmentGrouping,
    PartitionedInput,
    PartitionedQuery,
    PartitioningWorkload,
    Place,
    Route,
)

_SMALLEST_LATENCY = 1e-9
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Unit:
    """Inputs that share one assignment of key groups to partitions, for some queries."""

    inputs: tuple[PartitionedInput, ...]
    queries: tuple[str, ...]
    sent: Mapping[PartitionedInput, float]
    """The fraction of each input's rows that is sent: the largest fraction of any query (eq. 4)."""
    processed: Mapping[PartitionedInput, float]
    """How often each row of an input is processed: the sum of the fractions of all queries (eq. 6)."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A workload as a problem. Item `unit * key_groups + key group` is that key group of that unit."""

    problem: Problem
    units: tuple[Unit, ...]
    streams: tuple[str, ...]
    key_groups: int
    unshared_rows: float
    """The rows sent if each query sends its own copy."""

    def routes(self, placement: Placement) -> tuple[Route, ...]:
        """Return a placement as one route per unit."""
        size = self.key_groups
        return tuple(
            Route(unit.inputs, unit.queries, placement[number * size : (number + 1) * size])
            for number, unit in enumerate(self.units)
        )

    def hashed(self) -> Placement:
        """Return the placement of hashing: the key groups of each unit go to the partitions in turn."""
        of_unit = tuple(group % self.problem.partitions for group in range(self.key_groups))
        return of_unit * len(self.units)

    def placed(self, assignment: Mapping[PartitionedInput, Sequence[int]]) -> Placement | None:
        """Return an assignment of inputs as a placement, with hashing where it has no entry; None if it is empty."""
        if not assignment:
            return None
        partitions = self.problem.partitions
        placement = list(self.hashed())
        for number, unit in enumerate(self.units):
            assigned = next((assignment[input_] for input_ in unit.inputs if input_ in assignment), ())
            for group, partition in enumerate(assigned[: self.key_groups]):
                if 0 <= partition < partitions:
                    placement[number * self.key_groups + group] = partition
        return tuple(placement)


def compile_workload(workload: PartitioningWorkload) -> Compiled:
    """Compile a workload. Any loads, fractions, latencies and shared rows give a valid problem."""
    units = tuple(_units(workload))
    streams = tuple(sorted({input_.stream for unit in units for input_ in unit.inputs}))
    loads = _clean_loads(workload, {input_ for unit in units for input_ in unit.inputs})
    numbers = {stream: number for number, stream in enumerate(streams)}
    send: list[float] = []
    work: list[tuple[tuple[int, float], ...]] = []
    for unit in units:
        for group in range(workload.key_groups):
            send.append(sum(loads[input_][group] * unit.sent[input_] for input_ in unit.inputs))
            processed: defaultdict[int, float] = defaultdict(float)
            for input_ in unit.inputs:
                processed[numbers[input_.stream]] += loads[input_][group] * unit.processed[input_]
            work.append(tuple(sorted(processed.items())))
    latency = tuple(
        max(_finite(cost, 1.0), _SMALLEST_LATENCY) for cost in workload.latency or (1.0,) * workload.partitions
    )
    processing = _finite(workload.processing, 1.0)
    cells, sent_twice = _cells(workload, units, loads)
    problem = Problem(
        send=tuple(rows - sent_twice.get(item, 0.0) for item, rows in enumerate(send)),
        work=tuple(work),
        unit=tuple(number for number in range(len(units)) for _ in range(workload.key_groups)),
        cells=cells,
        latency=latency,
        pressure=tuple(cost * processing for cost in latency),
    )
    unshared = sum(sum(loads[input_]) * _fraction(query) for query in workload.queries for input_ in query.inputs)
    return Compiled(problem, units, streams, workload.key_groups, unshared)


def _units(workload: PartitioningWorkload) -> Iterator[Unit]:
    """Yield the units of a workload in a fixed order: per query, or over all queries."""
    match workload.grouping:
        case AssignmentGrouping.PER_QUERY:
            for query in workload.queries:
                yield from _connected((query,))
        case AssignmentGrouping.PER_ATTRIBUTE:
            yield from _connected(workload.queries)


def _connected(queries: Sequence[PartitionedQuery]) -> Iterator[Unit]:
    """Yield one unit for each set of inputs that operators of the queries connect."""
    inputs = sorted({input_ for query in queries for input_ in query.inputs})
    number = {input_: position for position, input_ in enumerate(inputs)}
    find, join = disjoint_sets(len(inputs))
    users: dict[PartitionedInput, dict[str, float]] = {input_: {} for input_ in inputs}
    for query in queries:
        for operator in query.operators:
            for input_ in operator[1:]:
                join(number[operator[0]], number[input_])
        for input_ in query.inputs:
            users[input_][query.name] = users[input_].get(query.name, 0.0) + _fraction(query)
    connected: defaultdict[int, list[PartitionedInput]] = defaultdict(list)
    for input_ in inputs:
        connected[find(number[input_])].append(input_)
    for members in connected.values():
        yield Unit(
            inputs=tuple(members),
            queries=tuple(dict.fromkeys(name for input_ in members for name in users[input_])),
            sent={input_: min(1.0, max(users[input_].values())) for input_ in members},
            processed={input_: sum(users[input_].values()) for input_ in members},
        )


def _cells(
    workload: PartitioningWorkload, units: Sequence[Unit], loads: Mapping[PartitionedInput, Sequence[float]]
) -> tuple[tuple[Cell, ...], dict[int, float]]:
    """Return shared rows as cells of items, and the rows that an item alone would send twice (in a self-join).

    Rows of a key group beyond the shared rows are shared only by the units that use this key group.
    """
    groups = {(input_.stream, input_.attribute): _Groups(list(rows), []) for input_, rows in loads.items()}
    for number, unit in enumerate(units):
        for input_ in unit.inputs:
            groups[input_.stream, input_.attribute].users.append((number * workload.key_groups, unit.sent[input_]))
    sent_twice: defaultdict[int, float] = defaultdict(float)
    cells: list[Cell] = []
    for shared in workload.shared:
        largest: dict[int, float] = {}
        for place in shared.places:
            entry = groups.get((shared.stream, place.attribute))
            if entry is None or not (rows := entry.take(place)) > 0:
                continue
            for base, fraction in entry.users:
                item, offered = base + place.key_group, rows * fraction
                if item in largest:
                    sent_twice[item] += min(offered, largest[item])
                    offered = max(offered, largest[item])
                largest[item] = offered
        cells.append(tuple(largest.items()))
    for entry in groups.values():
        if len(entry.users) > 1:
            cells.extend(
                tuple((base + group, rows * fraction) for base, fraction in entry.users)
                for group, rows in enumerate(entry.left)
            )
    return merge_cells(cells), sent_twice


@dataclass(frozen=True, slots=True)
class _Groups:
    """The key groups of an input: rows not yet known to be shared, and (first item, fraction sent) per unit."""

    left: list[float]
    users: list[tuple[int, float]]

    def take(self, place: Place) -> float:
        """Take and return the rows of a place, at most those left: statistics may contradict each other."""
        if not 0 <= place.key_group < len(self.left):
            return 0.0
        available = self.left[place.key_group]
        rows = _finite(place.rows, 0.0)
        if rows > available * (1 + _ROUNDING):
            rows = available
        self.left[place.key_group] = max(0.0, available - rows)
        return rows


def _clean_loads(
    workload: PartitioningWorkload, inputs: set[PartitionedInput]
) -> dict[PartitionedInput, tuple[float, ...]]:
    """Return finite loads for every input and key group.

    An infinite load counts as ten times the sum of the stream's finite loads, an unknown load as their average.
    """
    by_stream: defaultdict[str, list[float]] = defaultdict(list)
    for input_ in sorted(inputs):
        by_stream[input_.stream] += [x for x in workload.loads.get(input_, ())[: workload.key_groups] if _is_number(x)]
    clean: dict[PartitionedInput, tuple[float, ...]] = {}
    for input_ in sorted(inputs):
        known = by_stream[input_.stream]
        total = sum(known)
        usual = total / len(known) if known else 1.0
        rows = [*workload.loads.get(input_, ())][: workload.key_groups]
        rows += [usual] * (workload.key_groups - len(rows))
        clean[input_] = tuple(_clean(load, usual=usual, huge=10 * total or 10.0) for load in rows)
    return clean


def _clean(rows: float, *, usual: float, huge: float) -> float:
    if math.isnan(rows):
        return usual
    return min(max(rows, 0.0), huge) if math.isinf(rows) else max(rows, 0.0)


def _is_number(rows: float) -> bool:
    return math.isfinite(rows) and rows >= 0


def _finite(number: float, default: float) -> float:
    """Return the number, at least zero, or the default if it is infinite or not a number."""
    return max(number, 0.0) if math.isfinite(number) else default


def _fraction(query: PartitionedQuery) -> float:
    return min(1.0, _finite(query.fraction, 1.0))
