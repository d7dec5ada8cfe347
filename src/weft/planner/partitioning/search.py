"""Placements without a solver: place the heaviest items first, each where it adds least cost, then move items.

Search gives the first answer, the start of every solver call and the fallback, and it improves coarse answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from typing import TypeAlias

from weft.planner.partitioning.problem import Placement, Problem, cost_of, least_peaks, merge_items

Stop: TypeAlias = Callable[[], bool]
"""A function that returns whether time is over; searches call it regularly."""


def never() -> bool:
    """Return False: time is never over."""
    return False


_ASKED_EVERY = 128
"""The number of items between two calls of `stop`."""
_NOWHERE = -1
_EPSILON = 1e-9
FULL_SEARCH = 16.0
"""The number of passes over all items that a full search takes."""
LOOKS_PER_SECOND = 800_000
"""The speed of a search on a slow and busy machine, in looks (see `Problem.size`)."""
_CANDIDATES = 8
"""The number of partitions considered for one item, besides the least loaded one."""


@dataclass(frozen=True, slots=True)
class _Depth:
    """The settings of a search that may take `passes` passes."""

    passes: float
    levels: tuple[float, ...]
    """Levels of the peak, see `greedy`."""
    shares: tuple[float, ...]
    """The largest loads of clusters to place, as fractions of the average load."""
    kept: int
    """The number of placements that are improved."""
    rounds: int
    """The maximum number of passes of each improvement."""
    moved: tuple[float, ...]
    """The largest loads of clusters to move at the end, as fractions of the average load."""


_DEPTHS = (
    _Depth(FULL_SEARCH, levels=(1.0, 1.5, 2.0, 3.0, 4.0), shares=(0.25, 1.0), kept=4, rounds=8, moved=(1.0, 0.25)),
    _Depth(9.0, levels=(1.0, 1.5, 3.0), shares=(0.25,), kept=2, rounds=8, moved=(0.25,)),
    _Depth(4.0, levels=(1.0, 2.0), shares=(), kept=1, rounds=8, moved=()),
    _Depth(2.0, levels=(1.0, 2.0), shares=(), kept=1, rounds=2, moved=()),
    _Depth(1.4, levels=(1.0, 2.0), shares=(), kept=1, rounds=1, moved=()),
)


class _Floor:
    """A placement under construction, with the cost of placing or moving each item."""

    def __init__(self, problem: Problem, placement: Sequence[int], *, least: dict[int, float]) -> None:
        self.cells, self.work, self.send = problem.cells, problem.work, problem.send
        self.latency, self.pressure = problem.latency, problem.pressure
        self.at = list(placement)
        self.cells_of: list[list[int]] = [[] for _ in range(problem.items)]
        for number, cell in enumerate(problem.cells):
            for item, _ in cell:
                self.cells_of[item].append(number)
        # Loads are kept as costs: rows times the pressure of their partition.
        self.loads = {stream: [0.0] * problem.partitions for stream in problem.streams}
        self.all_loads = [0.0] * problem.partitions
        self.least = least
        self.tops: dict[int, tuple[tuple[float, int], ...]] = {}
        self.total = sum(rows for work in problem.work for _, rows in work) or 1.0
        self.tiny = _EPSILON * (self.total + sum(problem.send))
        for item, partition in enumerate(self.at):
            if partition != _NOWHERE:
                self._load(item, partition, 1.0)
        for stream in self.loads:
            self._rank(stream)

    def put(self, item: int, partition: int) -> None:
        """Place the item on the partition, or move it there."""
        if self.at[item] != _NOWHERE:
            self._load(item, self.at[item], -1.0)
        self.at[item] = partition
        self._load(item, partition, 1.0)
        for stream, _ in self.work[item]:
            self._rank(stream)

    def gains(self, item: int) -> dict[int, float]:
        """Return the rows of the item that need not be sent, by partition; partitions without any are left out."""
        total: dict[int, float] = {}
        at, cells = self.at, self.cells
        for number in self.cells_of[item]:
            cell = cells[number]
            if len(cell) == 2:
                (first, first_rows), (second, second_rows) = cell
                partition = at[second if first == item else first]
                total[partition] = total.get(partition, 0.0) + (first_rows if first_rows < second_rows else second_rows)
                continue
            own = next(rows for member, rows in cell if member == item)
            best: dict[int, float] = {}
            for member, rows in cell:
                if member != item:
                    partition = at[member]
                    offered = rows if rows < own else own
                    if offered > best.get(partition, 0.0):
                        best[partition] = offered
            for partition, rows in best.items():
                total[partition] = total.get(partition, 0.0) + rows
        total.pop(_NOWHERE, None)
        return total

    def price(self, item: int, partition: int, gains: dict[int, float]) -> tuple[float, float]:
        """Return the cost of the item on the partition (sending it, and the peaks), and how uneven loads would be."""
        cost = (self.send[item] - gains.get(partition, 0.0)) * self.latency[partition]
        current = self.at[item]
        stays = partition == current
        pressure = self.pressure[partition]
        uneven = 0.0
        for stream, rows in self.work[item]:
            loads = self.loads[stream]
            new_load = loads[partition] if stays else loads[partition] + rows * pressure
            peak = self.least.get(stream, 0.0)
            peak = max(peak, new_load)
            for load, loaded in self.tops[stream]:
                if loaded not in (current, partition):
                    peak = max(peak, load)
                    break
            if not stays and current != _NOWHERE:
                peak = max(peak, loads[current] - rows * self.pressure[current])
            cost += peak
            uneven += rows * (new_load - rows * pressure)
        return cost, uneven / self.total

    def candidates(self, gains: dict[int, float]) -> set[int]:
        """Return the partitions to consider for an item: those that save most, and the least loaded one."""
        loads = self.all_loads
        emptiest = min(range(len(loads)), key=loads.__getitem__)
        return {
            emptiest,
            *(gains if len(gains) <= _CANDIDATES else nlargest(_CANDIDATES, gains, key=gains.__getitem__)),
        }

    def neighbours(self, item: int) -> set[int]:
        """Return the items that share rows with the item."""
        return {neighbour for number in self.cells_of[item] for neighbour, _ in self.cells[number]}

    def _load(self, item: int, partition: int, sign: float) -> None:
        for stream, rows in self.work[item]:
            cost = sign * rows * self.pressure[partition]
            self.loads[stream][partition] += cost
            self.all_loads[partition] += cost

    def _rank(self, stream: int) -> None:
        """Update the three most loaded partitions: enough to know the peak without any two partitions."""
        loads = self.loads[stream].copy()
        tops = []
        for _ in range(min(3, len(loads))):
            load = max(loads)
            partition = loads.index(load)
            tops.append((load, partition))
            loads[partition] = -1.0
        self.tops[stream] = tuple(tops)


def greedy(problem: Problem, *, level: float = 1.0) -> Placement:
    """Place each item, the heaviest first, where it adds least cost.

    Peaks up to `level` times the lower bound add no cost.
    """
    least = {stream: level * cost for stream, cost in least_peaks(problem).items()}
    floor = _Floor(problem, [_NOWHERE] * problem.items, least=least)
    for item in _heaviest_first(problem):
        gains = floor.gains(item)
        candidates = floor.candidates(gains)
        floor.put(item, min(candidates, key=_price_of(floor, item, gains)))
    return tuple(floor.at)


def improve_assignment(
    problem: Problem, placement: Placement, *, passes: int = 8, items: int | None = None, stop: Stop = never
) -> Placement:
    """Improve a placement by single moves, until no move helps or the passes are over. The cost never rises.

    With `items`, only that many of the heaviest items are moved.
    """
    floor = _Floor(problem, placement, least={})
    everywhere = range(problem.partitions if problem.partitions <= _CANDIDATES else 0)
    order = _heaviest_first(problem)[:items]
    stale = set(order)
    for _ in range(passes):
        waiting, stale = stale, set()
        for position, item in enumerate(order):
            if position % _ASKED_EVERY == 0 and stop():
                stale.clear()
                break
            if item not in waiting:
                continue
            gains = floor.gains(item)
            before, spread = floor.price(item, floor.at[item], gains)
            after, new_spread, best = min(map(_price_of(floor, item, gains), {*floor.candidates(gains), *everywhere}))
            # A move that only evens out loads costs nothing, and can make room for a move that helps.
            better = after < before - floor.tiny or (after <= before and new_spread < spread - floor.tiny)
            if best != floor.at[item] and better:
                floor.put(item, best)
                stale |= floor.neighbours(item)
        if not stale:
            break
    improved = tuple(floor.at)
    return improved if cost_of(problem, improved).total <= cost_of(problem, placement).total else placement


def cluster(problem: Problem, *, blocks: int, largest: float, within: Placement | None = None) -> list[int]:
    """Return the block of each item, for about `blocks` blocks, each with at most `largest` load.

    This merges key groups as algorithm 1 does, but by the rows that they share instead of by number; then the lightest
    blocks are merged in pairs. With `within`, only items on the same partition of that placement are merged.
    """
    load = [sum(rows for _, rows in work) for work in problem.work]
    parent = list(range(problem.items))

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    left = problem.items

    def join(one: int, other: int) -> None:
        nonlocal left
        first, second = sorted((find(one), find(other)))
        apart = within is not None and within[one] != within[other]
        if left > blocks and first != second and not apart and load[first] + load[second] <= largest:
            parent[second] = first
            load[first] += load[second]
            left -= 1

    for one, other in _strongest_pairs(problem):
        join(one, other)
    roots = sorted({find(item) for item in range(problem.items)}, key=lambda item: (load[item], item))
    for one, other in zip(roots[0::2], roots[1::2], strict=False):
        join(one, other)
    block_numbers: dict[int, int] = {}
    return [block_numbers.setdefault(find(item), len(block_numbers)) for item in range(problem.items)]


def search(
    problem: Problem, *, starts: Sequence[Placement] = (), passes: float = FULL_SEARCH, stop: Stop = never
) -> Placement:
    """Return the best placement that about `passes` passes over the problem find.

    The most important choice is how high a peak to accept: a higher peak costs more, but more rows are sent only once.
    Items and clusters of items are therefore placed at several levels of the peak; the best of these placements and of
    the given starts are improved.
    """
    if problem.partitions == 1 or problem.items == 0:
        return (0,) * problem.items
    if passes < _DEPTHS[-1].passes and starts:
        return improve_assignment(problem, starts[0], passes=1, items=int(passes * problem.items), stop=stop)
    depth = next(depth for depth in _DEPTHS if passes >= depth.passes or depth is _DEPTHS[-1])
    placements = list(starts)
    for level in depth.levels:
        placements.extend(() if placements and stop() else (greedy(problem, level=level),))
    for share in depth.shares:
        placements.extend(() if stop() else _clustered(problem, share=share, levels=depth.levels))
    ranked = sorted(placements, key=lambda placement: cost_of(problem, placement).total)
    best = _cheapest(
        problem, [improve_assignment(problem, base, passes=depth.rounds, stop=stop) for base in ranked[: depth.kept]]
    )
    for share in depth.moved:
        best = best if stop() else rearrange(problem, best, share=share)
    return best


def _clustered(problem: Problem, *, share: float, levels: Sequence[float]) -> list[Placement]:
    """Place clusters of up to this share of the average load, once per level of the peak."""
    largest = share * sum(rows for work in problem.work for _, rows in work) / problem.partitions
    blocks = cluster(problem, blocks=problem.partitions, largest=largest)
    coarse = merge_items(problem, blocks)
    placements = [improve_assignment(coarse, greedy(coarse, level=level)) for level in levels]
    return [tuple(placed[block] for block in blocks) for placed in placements]


def rearrange(problem: Problem, placement: Placement, *, share: float) -> Placement:
    """Improve a placement by moving clusters of up to this share of the average load, then items."""
    largest = share * sum(rows for work in problem.work for _, rows in work) / problem.partitions
    blocks = cluster(problem, blocks=problem.partitions, largest=largest, within=placement)
    coarse = merge_items(problem, blocks)
    start = [0] * coarse.items
    for block, partition in zip(blocks, placement, strict=True):
        start[block] = partition
    moved = improve_assignment(coarse, tuple(start))
    return improve_assignment(problem, tuple(moved[block] for block in blocks))


def _cheapest(problem: Problem, placements: Sequence[Placement]) -> Placement:
    return min(placements, key=lambda placement: cost_of(problem, placement).total)


def _strongest_pairs(problem: Problem) -> list[tuple[int, int]]:
    """Return pairs of items by the rows they share, most first; in large cells, only neighbours in size are paired."""
    shared: dict[tuple[int, int], float] = {}
    for cell in problem.cells:
        ranked = sorted(cell, key=lambda member: (-member[1], member[0]))
        for (first, _), (second, rows) in pairwise(ranked):
            pair = (first, second) if first < second else (second, first)
            shared[pair] = shared.get(pair, 0.0) + rows
    return sorted(shared, key=lambda pair: (-shared[pair], pair))


def _heaviest_first(problem: Problem) -> list[int]:
    weight = [rows + sum(load for _, load in work) for rows, work in zip(problem.send, problem.work, strict=True)]
    return sorted(range(problem.items), key=lambda item: (-weight[item], item))


def _price_of(floor: _Floor, item: int, gains: dict[int, float]) -> Callable[[int], tuple[float, float, int]]:
    def price(partition: int) -> tuple[float, float, int]:
        return (*floor.price(item, partition, gains), partition)

    return price
