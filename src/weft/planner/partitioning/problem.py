"""Eq. 1–10 on items: a key group of inputs that are placed alike is one item, rows shared by items are one cell.

Every rung of the ladder is a change of this one problem: fewer items (blocks), fewer partitions, or a part of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from weft.planner.partitioning.workload import PartitioningCost

Placement: TypeAlias = tuple[int, ...]
"""Item → partition."""
Member: TypeAlias = tuple[int, float]
"""An item of a cell and the rows it offers."""
Cell: TypeAlias = tuple[Member, ...]


_LOOKS_PER_ITEM = 100
"""Pricing an item at some partitions takes as long as this many looks at other members of its cells."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Place every item on one partition; cheap to send, and no partition too loaded."""

    send: tuple[float, ...]
    """Rows of each item if nothing were shared."""
    work: tuple[tuple[tuple[int, float], ...], ...]
    """Per item: (stream, rows to process)."""
    unit: tuple[int, ...]
    """Per item: what it is a key group of."""
    cells: tuple[Cell, ...]
    latency: tuple[float, ...]
    """Per partition: cost of a row sent to it."""
    pressure: tuple[float, ...]
    """Per partition: cost of a row processed on it, if it is the most loaded one."""

    @property
    def items(self) -> int:
        """How many there are to place."""
        return len(self.send)

    @property
    def partitions(self) -> int:
        """How many there are to choose from."""
        return len(self.latency)

    @property
    def interchangeable(self) -> bool:
        """No partition differs from another, so that renaming them changes nothing."""
        return len(set(self.latency)) <= 1 and len(set(self.pressure)) <= 1

    @property
    def streams(self) -> tuple[int, ...]:
        """The streams that are worked on, ascending."""
        return tuple(sorted({stream for work in self.work for stream, _ in work}))

    @property
    def size(self) -> int:
        """What one look at every item takes, in looks from one member of a cell at another."""
        return _LOOKS_PER_ITEM * self.items + sum(len(cell) ** 2 for cell in self.cells)


def cost_of(problem: Problem, placement: Sequence[int]) -> PartitioningCost:
    """Eq. 4–10 of a placement."""
    latency = problem.latency
    copies = sum(rows * latency[at] for rows, at in zip(problem.send, placement, strict=True))
    copies -= sum(_saved(cell, placement, latency) for cell in problem.cells)
    return PartitioningCost(copies, sum(peaks(problem, placement).values()))


def peaks(problem: Problem, placement: Sequence[int]) -> dict[int, float]:
    """The most loaded partition of each stream, as its cost."""
    loads: defaultdict[tuple[int, int], float] = defaultdict(float)
    for work, at in zip(problem.work, placement, strict=True):
        for stream, rows in work:
            loads[stream, at] += rows
    highest: dict[int, float] = {}
    for (stream, at), rows in loads.items():
        highest[stream] = max(highest.get(stream, 0.0), rows * problem.pressure[at])
    return highest


def _saved(cell: Cell, placement: Sequence[int], latency: Sequence[float]) -> float:
    """What is not sent because it is there already: all that members offer at a partition but the largest."""
    if len(cell) == 2:
        (first, some), (second, other) = cell
        at = placement[first]
        return min(some, other) * latency[at] if at == placement[second] else 0.0
    most: dict[int, float] = {}
    saved = 0.0
    for item, rows in cell:
        at = placement[item]
        before = most.get(at)
        if before is None:
            most[at] = rows
        else:
            saved += min(before, rows) * latency[at]
            most[at] = max(before, rows)
    return saved


def least_peaks(problem: Problem) -> dict[int, float]:
    """Per stream, what its most loaded partition costs at least: the average, the heaviest item, the pigeonholes."""
    loads: defaultdict[int, list[float]] = defaultdict(list)
    for work in problem.work:
        for stream, rows in work:
            loads[stream].append(rows)
    lightest = min(problem.pressure)
    if lightest <= 0:
        return dict.fromkeys(loads, 0.0)
    capacity = sum(1.0 / pressure for pressure in problem.pressure)
    least: dict[int, float] = {}
    for stream, each in loads.items():
        each.sort(reverse=True)
        # Of the k·P + 1 heaviest, some k + 1 are together, and none is lighter than the last of them.
        holes = (
            lightest * sum(each[end - after : end + 1])
            for after, end in enumerate(range(0, len(each), problem.partitions))
        )
        least[stream] = max(sum(each) / capacity, *holes)
    return least


def bound_of(problem: Problem) -> float:
    """No placement costs less: every row is sent once to the nearest partition, loads are as even as they can be."""
    rows = sum(problem.send)
    rows -= sum(sum(rows for _, rows in cell) - max(rows for _, rows in cell) for cell in problem.cells)
    return min(problem.latency) * max(rows, 0.0) + sum(least_peaks(problem).values())


def merge_items(problem: Problem, block_of: Sequence[int]) -> Problem:
    """The same problem with the items of a block placed together; costs are exactly those of the original.

    Blocks are numbered from 0 without holes.
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
        most: dict[int, float] = {}
        for item, rows in cell:
            block = block_of[item]
            if block in most:
                send[block] -= min(most[block], rows)
                most[block] = max(most[block], rows)
            else:
                most[block] = rows
        cells.append(tuple(most.items()))
    return Problem(
        send=tuple(send),
        work=tuple(tuple(sorted(each.items())) for each in work),
        unit=tuple(unit),
        cells=merge_cells(cells),
        latency=problem.latency,
        pressure=problem.pressure,
    )


def part_of(problem: Problem, items: Sequence[int], *, partitions: Sequence[int] | None = None) -> Problem:
    """The items alone, in the given order, on all partitions or on some."""
    if partitions is None and len(items) == problem.items and all(at == item for at, item in enumerate(items)):
        return problem
    number = {item: at for at, item in enumerate(items)}
    chosen = range(problem.partitions) if partitions is None else partitions
    return Problem(
        send=tuple(problem.send[item] for item in items),
        work=tuple(problem.work[item] for item in items),
        unit=tuple(problem.unit[item] for item in items),
        cells=merge_cells(
            tuple((number[item], rows) for item, rows in cell if item in number) for cell in problem.cells
        ),
        latency=tuple(problem.latency[at] for at in chosen),
        pressure=tuple(problem.pressure[at] for at in chosen),
    )


def merge_cells(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Cells of the same members as one, where that changes no cost; those that can save nothing are left out."""
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
    """The problem without its lightest cells, so that what is left takes at most so many looks."""
    looks -= _LOOKS_PER_ITEM * problem.items
    if sum(len(cell) ** 2 for cell in problem.cells) <= looks:
        return problem
    ranked = sorted(problem.cells, key=lambda cell: -min(rows for _, rows in cell))
    sizes = accumulate(len(cell) ** 2 for cell in ranked)
    kept = [cell for cell, upto in zip(ranked, sizes, strict=True) if upto <= looks]
    return Problem(problem.send, problem.work, problem.unit, tuple(kept), problem.latency, problem.pressure)


def components(problem: Problem) -> list[list[int]]:
    """Items of streams that have nothing to do with each other, apart: each can be optimized alone (eq. 10)."""
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


def disjoint_sets(count: int) -> tuple[Callable[[int], int], Callable[[int, int], None]]:
    """`find` and `join` over 0..count-1; a set is named by its smallest element."""
    parent = list(range(count))

    def find(element: int) -> int:
        while parent[element] != element:
            parent[element] = parent[parent[element]]
            element = parent[element]
        return element

    def join(one: int, other: int) -> None:
        first, second = sorted((find(one), find(other)))
        parent[second] = first

    return find, join
