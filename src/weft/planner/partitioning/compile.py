"""From a workload with whatever statistics there are to a problem with finite numbers, and back to routes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.planner.partitioning.problem import Cell, Placement, Problem, disjoint_sets, merge_cells
from weft.planner.partitioning.workload import Grouping, Input, PartitionedQuery, PartitioningWorkload, Place, Route

_SMALLEST_LATENCY = 1e-9
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Unit:
    """Inputs that are placed alike for some queries: one assignment of key groups."""

    inputs: tuple[Input, ...]
    queries: tuple[str, ...]
    sent: Mapping[Input, float]
    """The fraction of each input's rows that is sent: that of the query that wants most (eq. 4)."""
    processed: Mapping[Input, float]
    """How many times each row of an input is processed: the sum over queries (eq. 6)."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A workload as a problem; item `unit · key groups + key group` is that key group of that unit."""

    problem: Problem
    units: tuple[Unit, ...]
    streams: tuple[str, ...]
    key_groups: int
    unshared_rows: float
    """What queries send if each sends its own."""

    def routes(self, placement: Placement) -> tuple[Route, ...]:
        """The assignment of each unit."""
        step = self.key_groups
        return tuple(
            Route(unit.inputs, unit.queries, placement[at * step : (at + 1) * step])
            for at, unit in enumerate(self.units)
        )

    def hashed(self) -> Placement:
        """Key groups in turn over the partitions: what hashing does."""
        ring = tuple(group % self.problem.partitions for group in range(self.key_groups))
        return ring * len(self.units)

    def placed(self, assignment: Mapping[Input, Sequence[int]]) -> Placement | None:
        """An assignment of inputs as a placement, hashing what it does not say; None if it says nothing."""
        if not assignment:
            return None
        partitions = self.problem.partitions
        placement = list(self.hashed())
        for number, unit in enumerate(self.units):
            known = next((assignment[each] for each in unit.inputs if each in assignment), ())
            for group, at in enumerate(known[: self.key_groups]):
                if 0 <= at < partitions:
                    placement[number * self.key_groups + group] = at
        return tuple(placement)


def compile_workload(workload: PartitioningWorkload) -> Compiled:
    """The problem of a workload; any loads, fractions, latencies and shared rows give one."""
    units = tuple(_units(workload))
    streams = tuple(sorted({each.stream for unit in units for each in unit.inputs}))
    loads = _clean_loads(workload, {each for unit in units for each in unit.inputs})
    numbers = {stream: number for number, stream in enumerate(streams)}
    send: list[float] = []
    work: list[tuple[tuple[int, float], ...]] = []
    for unit in units:
        for group in range(workload.key_groups):
            send.append(sum(loads[each][group] * unit.sent[each] for each in unit.inputs))
            processed: defaultdict[int, float] = defaultdict(float)
            for each in unit.inputs:
                processed[numbers[each.stream]] += loads[each][group] * unit.processed[each]
            work.append(tuple(sorted(processed.items())))
    latency = tuple(
        max(_finite(each, 1.0), _SMALLEST_LATENCY) for each in workload.latency or (1.0,) * workload.partitions
    )
    processing = _finite(workload.processing, 1.0)
    cells, twice = _cells(workload, units, loads)
    problem = Problem(
        send=tuple(rows - twice.get(item, 0.0) for item, rows in enumerate(send)),
        work=tuple(work),
        unit=tuple(number for number in range(len(units)) for _ in range(workload.key_groups)),
        cells=cells,
        latency=latency,
        pressure=tuple(each * processing for each in latency),
    )
    unshared = sum(sum(loads[each]) * _fraction(query) for query in workload.queries for each in query.inputs)
    return Compiled(problem, units, streams, workload.key_groups, unshared)


def _units(workload: PartitioningWorkload) -> Iterator[Unit]:
    """Inputs joined by operators, per query or over all of them, in a fixed order."""
    match workload.grouping:
        case Grouping.PER_QUERY:
            for query in workload.queries:
                yield from _connected((query,))
        case Grouping.PER_ATTRIBUTE:
            yield from _connected(workload.queries)


def _connected(queries: Sequence[PartitionedQuery]) -> Iterator[Unit]:
    inputs = sorted({each for query in queries for each in query.inputs})
    number = {each: at for at, each in enumerate(inputs)}
    find, join = disjoint_sets(len(inputs))
    users: dict[Input, dict[str, float]] = {each: {} for each in inputs}
    for query in queries:
        for operator in query.operators:
            for each in operator[1:]:
                join(number[operator[0]], number[each])
        for each in query.inputs:
            users[each][query.name] = users[each].get(query.name, 0.0) + _fraction(query)
    together: defaultdict[int, list[Input]] = defaultdict(list)
    for each in inputs:
        together[find(number[each])].append(each)
    for members in together.values():
        yield Unit(
            inputs=tuple(members),
            queries=tuple(dict.fromkeys(name for each in members for name in users[each])),
            sent={each: min(1.0, max(users[each].values())) for each in members},
            processed={each: sum(users[each].values()) for each in members},
        )


def _cells(
    workload: PartitioningWorkload, units: Sequence[Unit], loads: Mapping[Input, Sequence[float]]
) -> tuple[tuple[Cell, ...], dict[int, float]]:
    """Shared rows as cells of items, and the rows an item would send twice by itself (a stream joined with itself).

    What a key group holds beyond the shared rows is shared by the units of that very key group only.
    """
    groups = {(each.stream, each.attribute): _Groups(list(rows), []) for each, rows in loads.items()}
    for number, unit in enumerate(units):
        for each in unit.inputs:
            groups[each.stream, each.attribute].users.append((number * workload.key_groups, unit.sent[each]))
    twice: defaultdict[int, float] = defaultdict(float)
    cells: list[Cell] = []
    for shared in workload.shared:
        most: dict[int, float] = {}
        for place in shared.places:
            at = groups.get((shared.stream, place.attribute))
            if at is None or not (rows := at.take(place)) > 0:
                continue
            for base, fraction in at.users:
                item, offered = base + place.key_group, rows * fraction
                if item in most:
                    twice[item] += min(offered, most[item])
                    offered = max(offered, most[item])
                most[item] = offered
        cells.append(tuple(most.items()))
    for at in groups.values():
        if len(at.users) > 1:
            cells.extend(
                tuple((base + group, rows * fraction) for base, fraction in at.users)
                for group, rows in enumerate(at.left)
            )
    return merge_cells(cells), twice


@dataclass(frozen=True, slots=True)
class _Groups:
    """The key groups of an input: rows not yet known to be shared, and (first item, fraction sent) of its units."""

    left: list[float]
    users: list[tuple[int, float]]

    def take(self, place: Place) -> float:
        """The rows a place has to offer. Those that are not there cannot be shared: statistics need not agree."""
        if not 0 <= place.key_group < len(self.left):
            return 0.0
        there = self.left[place.key_group]
        rows = _finite(place.rows, 0.0)
        if rows > there * (1 + _ROUNDING):
            rows = there
        self.left[place.key_group] = max(0.0, there - rows)
        return rows


def _clean_loads(workload: PartitioningWorkload, inputs: set[Input]) -> dict[Input, tuple[float, ...]]:
    """Finite loads for every input and key group.

    Infinite counts as ten times all that is finite in the stream; unknown as the average of the stream's known ones.
    """
    by_stream: defaultdict[str, list[float]] = defaultdict(list)
    for each in sorted(inputs):
        by_stream[each.stream] += [x for x in workload.loads.get(each, ())[: workload.key_groups] if _is_number(x)]
    clean: dict[Input, tuple[float, ...]] = {}
    for each in sorted(inputs):
        known = by_stream[each.stream]
        total = sum(known)
        usual = total / len(known) if known else 1.0
        rows = [*workload.loads.get(each, ())][: workload.key_groups]
        rows += [usual] * (workload.key_groups - len(rows))
        clean[each] = tuple(_clean(x, usual=usual, huge=10 * total or 10.0) for x in rows)
    return clean


def _clean(rows: float, *, usual: float, huge: float) -> float:
    if math.isnan(rows):
        return usual
    return min(max(rows, 0.0), huge) if math.isinf(rows) else max(rows, 0.0)


def _is_number(rows: float) -> bool:
    return math.isfinite(rows) and rows >= 0


def _finite(number: float, default: float) -> float:
    """A number that is not one, or infinite, is the default; none is below zero."""
    return max(number, 0.0) if math.isfinite(number) else default


def _fraction(query: PartitionedQuery) -> float:
    return min(1.0, _finite(query.fraction, 1.0))
