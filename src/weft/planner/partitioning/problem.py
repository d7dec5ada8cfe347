"""Eq. 1–10 over items and cells.

A key group of inputs that are placed alike is one item; rows that several items share are one cell. Every rung of the
ladder transforms this problem: fewer items (blocks), fewer partitions, or a part of the problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from weft.planner.disjoint_sets import disjoint_sets
from weft.planner.partitioning.workload import PartitioningCost

Placement: TypeAlias = tuple[int, ...]
"""The partition of each item."""
Member: TypeAlias = tuple[int, float]
"""An item of a cell, and the rows of the item that belong to the cell."""
Cell: TypeAlias = tuple[Member, ...]


_LOOKS_PER_ITEM = 100
"""The time to price an item at some partitions, in looks (see `Problem.size`)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Place every item on one partition, so that sending is cheap and no partition has too much load."""

    send: tuple[float, ...]
    """Per item: rows to send if nothing is shared."""
    work: tuple[tuple[tuple[int, float], ...], ...]
    """Per item: (stream, rows to process)."""
    unit: tuple[int, ...]
    """Per item: the unit (see `compile.Unit`) of the key group."""
    cells: tuple[Cell, ...]
    latency: tuple[float, ...]
    """Per partition: the cost of sending a row to it."""
    pressure: tuple[float, ...]
    """Per partition: the cost of processing a row, if the partition is the most loaded one."""

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.send)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.latency)

    @property
    def interchangeable(self) -> bool:
        """Whether all partitions cost the same, so that renaming partitions does not change the cost."""
        return len(set(self.latency)) <= 1 and len(set(self.pressure)) <= 1

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that items process, ascending."""
        return tuple(sorted({stream for work in self.work for stream, _ in work}))

    @property
    def size(self) -> int:
        """The time to price every item once, in looks: accesses from a member of a cell to another member."""
        return _LOOKS_PER_ITEM * self.items + sum(len(cell) ** 2 for cell in self.cells)


def cost_of(problem: Problem, placement: Sequence[int]) -> PartitioningCost:
    """Return the cost of a placement (eq. 4–10)."""
    latency = problem.latency
    copies = sum(rows * latency[partition] for rows, partition in zip(problem.send, placement, strict=True))
    copies -= sum(_saved(cell, placement, latency) for cell in problem.cells)
    return PartitioningCost(copies, sum(peaks(problem, placement).values()))


def peaks(problem: Problem, placement: Sequence[int]) -> dict[int, float]:
    """Return the cost of the most loaded partition, by stream."""
    loads: defaultdict[tuple[int, int], float] = defaultdict(float)
    for work, partition in zip(problem.work, placement, strict=True):
        for stream, rows in work:
            loads[stream, partition] += rows
    highest: dict[int, float] = {}
    for (stream, partition), rows in loads.items():
        highest[stream] = max(highest.get(stream, 0.0), rows * problem.pressure[partition])
    return highest


def _saved(cell: Cell, placement: Sequence[int], latency: Sequence[float]) -> float:
    """Return the cost that a cell saves: at each partition, only the largest of its members is sent."""
    if len(cell) == 2:
        (first, first_rows), (second, second_rows) = cell
        partition = placement[first]
        return min(first_rows, second_rows) * latency[partition] if partition == placement[second] else 0.0
    largest: dict[int, float] = {}
    saved = 0.0
    for item, rows in cell:
        partition = placement[item]
        previous = largest.get(partition)
        if previous is None:
            largest[partition] = rows
        else:
            saved += min(previous, rows) * latency[partition]
            largest[partition] = max(previous, rows)
    return saved


def least_peaks(problem: Problem) -> dict[int, float]:
    """Return a lower bound of the cost of the most loaded partition, by stream.

    The bound is the largest of the average load, the heaviest item and a pigeonhole argument.
    """
    loads: defaultdict[int, list[float]] = defaultdict(list)
    for work in problem.work:
        for stream, rows in work:
            loads[stream].append(rows)
    lightest = min(problem.pressure)
    if lightest <= 0:
        return dict.fromkeys(loads, 0.0)
    capacity = sum(1.0 / pressure for pressure in problem.pressure)
    bounds: dict[int, float] = {}
    for stream, sizes in loads.items():
        sizes.sort(reverse=True)
        # Some partition has k + 1 of the k·P + 1 heaviest items, which weigh at least as much as the lightest k + 1.
        pigeonholes = (
            lightest * sum(sizes[end - k : end + 1]) for k, end in enumerate(range(0, len(sizes), problem.partitions))
        )
        bounds[stream] = max(sum(sizes) / capacity, *pigeonholes)
    return bounds


def lower_bound(problem: Problem) -> float:
    """Return a lower bound of the cost: every row is sent once, to the cheapest partition, and loads are even."""
    rows = sum(problem.send)
    rows -= sum(sum(rows for _, rows in cell) - max(rows for _, rows in cell) for cell in problem.cells)
    return min(problem.latency) * max(rows, 0.0) + sum(least_peaks(problem).values())


def merge_items(problem: Problem, block_of: Sequence[int]) -> Problem:
    """Return the problem with the items of each block placed together. Costs are exactly those of the original.

    Blocks are numbered from 0 without gaps.
    """
    blocks = max(block_of, default=-1) + 1
    send = [0.0] * blocks
    unit = [-1] * blocks
    work: list[defaultdict[int, float]] = [defaultdict(float) for _ in range(blocks)]
    for item, block in enumerate(block_of):
        send[block] += problem.send[item]
        unit[block] = problem.unit[item]
        for stream, rows in problem.work[item]:
            work[block][stream] += rows
    cells = []
    for cell in problem.cells:
        largest: dict[int, float] = {}
        for item, rows in cell:
            block = block_of[item]
            if block in largest:
                send[block] -= min(largest[block], rows)
                largest[block] = max(largest[block], rows)
            else:
                largest[block] = rows
        cells.append(tuple(largest.items()))
    return Problem(
        send=tuple(send),
        work=tuple(tuple(sorted(by_stream.items())) for by_stream in work),
        unit=tuple(unit),
        cells=merge_cells(cells),
        latency=problem.latency,
        pressure=problem.pressure,
    )


def subproblem(problem: Problem, items: Sequence[int], *, partitions: Sequence[int] | None = None) -> Problem:
    """Return the problem of these items only, in the given order, on all or on the given partitions."""
    if partitions is None and len(items) == problem.items and all(i == item for i, item in enumerate(items)):
        return problem
    number = {item: i for i, item in enumerate(items)}
    chosen = range(problem.partitions) if partitions is None else partitions
    return Problem(
        send=tuple(problem.send[item] for item in items),
        work=tuple(problem.work[item] for item in items),
        unit=tuple(problem.unit[item] for item in items),
        cells=merge_cells(
            tuple((number[item], rows) for item, rows in cell if item in number) for cell in problem.cells
        ),
        latency=tuple(problem.latency[partition] for partition in chosen),
        pressure=tuple(problem.pressure[partition] for partition in chosen),
    )


def merge_cells(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Merge cells with the same members where this does not change the cost, and drop cells that can save nothing."""
    even: defaultdict[tuple[int, ...], float] = defaultdict(float)
    uneven: list[Cell] = []
    for cell in cells:
        members = sorted((item, rows) for item, rows in cell if rows > 0)
        if len(members) < 2:
            continue
        if len({rows for _, rows in members}) == 1:
            even[tuple(item for item, _ in members)] += members[0][1]
        else:
            uneven.append(tuple(members))
    return (*(tuple((item, rows) for item in items) for items, rows in even.items()), *uneven)


def heaviest_cells(problem: Problem, looks: int) -> Problem:
    """Return the problem without its lightest cells, so that one pass takes at most `looks` looks."""
    looks -= _LOOKS_PER_ITEM * problem.items
    if sum(len(cell) ** 2 for cell in problem.cells) <= looks:
        return problem
    ranked = sorted(problem.cells, key=lambda cell: -min(rows for _, rows in cell))
    sizes = accumulate(len(cell) ** 2 for cell in ranked)
    kept = [cell for cell, total in zip(ranked, sizes, strict=True) if total <= looks]
    return Problem(problem.send, problem.work, problem.unit, tuple(kept), problem.latency, problem.pressure)


def connected_items(problem: Problem) -> list[list[int]]:
    """Return the connected sets of items. Each set can be optimized separately (eq. 10)."""
    find, join = disjoint_sets(problem.items)
    first_of: dict[tuple[str, int], int] = {}
    for item, work in enumerate(problem.work):
        join(item, first_of.setdefault(("unit", problem.unit[item]), item))
        for stream, _ in work:
            join(item, first_of.setdefault(("stream", stream), item))
    for cell in problem.cells:
        for item, _ in cell[1:]:
            join(item, cell[0][0])
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for item in range(problem.items):
        groups[find(item)].append(item)
    return list(groups.values())
