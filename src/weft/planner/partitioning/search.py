"""Placements without a solver: heaviest items first, each where it adds least, then moves as long as one helps.

This is the first answer, the start of every solver call, the fallback, and what polishes a coarse answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import pairwise
from typing import TypeAlias

from weft.planner.partitioning.problem import Placement, Problem, cost_of, least_peaks, merge_items

Stop: TypeAlias = Callable[[], bool]
"""Says that time is over; asked every now and then."""


def never() -> bool:
    """Time is never over."""
    return False


_ASKED_EVERY = 128
"""Items after which time is asked for."""
_NOWHERE = -1
_EPSILON = 1e-9
FULL_SEARCH = 16.0
"""How many passes over all items a full search takes."""
LOOKS_PER_SECOND = 800_000
"""How far a search gets, by `Problem.size`, on a slow and busy machine."""
_CANDIDATES = 8
"""Partitions looked at for one item, beside the one with most room."""


@dataclass(frozen=True, slots=True)
class _Depth:
    """How thorough a search is that may take so many passes."""

    passes: float
    levels: tuple[float, ...]
    shares: tuple[float, ...]
    """Sizes of clusters that are placed, as shares of the average load."""
    kept: int
    """How many of the placements found are improved."""
    rounds: int
    moved: tuple[float, ...]
    """Sizes of clusters that are moved in the end."""


_DEPTHS = (
    _Depth(FULL_SEARCH, levels=(1.0, 1.5, 2.0, 3.0, 4.0), shares=(0.25, 1.0), kept=4, rounds=8, moved=(1.0, 0.25)),
    _Depth(9.0, levels=(1.0, 1.5, 3.0), shares=(0.25,), kept=2, rounds=8, moved=(0.25,)),
    _Depth(4.0, levels=(1.0, 2.0), shares=(), kept=1, rounds=8, moved=()),
    _Depth(2.0, levels=(1.0, 2.0), shares=(), kept=1, rounds=2, moved=()),
    _Depth(1.4, levels=(1.0, 2.0), shares=(), kept=1, rounds=1, moved=()),
)


class _Floor:
    """Where items are, and what moving one would change."""

    def __init__(self, problem: Problem, placement: Sequence[int], *, least: dict[int, float]) -> None:
        self.cells, self.work, self.send = problem.cells, problem.work, problem.send
        self.latency, self.pressure = problem.latency, problem.pressure
        self.at = list(placement)
        self.cells_of: list[list[int]] = [[] for _ in range(problem.items)]
        for number, cell in enumerate(problem.cells):
            for item, _ in cell:
                self.cells_of[item].append(number)
        # Loads are kept as costs, that is, times the pressure of their partition.
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
        """The item is there from now on."""
        if self.at[item] != _NOWHERE:
            self._load(item, self.at[item], -1.0)
        self.at[item] = partition
        self._load(item, partition, 1.0)
        for stream, _ in self.work[item]:
            self._rank(stream)

    def gains(self, item: int) -> dict[int, float]:
        """Rows that need not be sent if the item is at a partition, for each where there are any."""
        total: dict[int, float] = {}
        at, cells = self.at, self.cells
        for number in self.cells_of[item]:
            cell = cells[number]
            if len(cell) == 2:
                (first, some), (second, other) = cell
                partition = at[second if first == item else first]
                total[partition] = total.get(partition, 0.0) + (some if some < other else other)
                continue
            own = next(rows for each, rows in cell if each == item)
            best: dict[int, float] = {}
            for each, rows in cell:
                if each != item:
                    partition = at[each]
                    offered = rows if rows < own else own
                    if offered > best.get(partition, 0.0):
                        best[partition] = offered
            for partition, rows in best.items():
                total[partition] = total.get(partition, 0.0) + rows
        total.pop(_NOWHERE, None)
        return total

    def price(self, item: int, partition: int, gains: dict[int, float]) -> tuple[float, float]:
        """What the item costs there: sending and the rise of the peaks; then how uneven loads would be."""
        cost = (self.send[item] - gains.get(partition, 0.0)) * self.latency[partition]
        here = self.at[item]
        stays = partition == here
        pressure = self.pressure[partition]
        uneven = 0.0
        for stream, rows in self.work[item]:
            loads = self.loads[stream]
            there = loads[partition] if stays else loads[partition] + rows * pressure
            peak = self.least.get(stream, 0.0)
            peak = max(peak, there)
            for load, at in self.tops[stream]:
                if at not in (here, partition):
                    peak = max(peak, load)
                    break
            if not stays and here != _NOWHERE:
                peak = max(peak, loads[here] - rows * self.pressure[here])
            cost += peak
            uneven += rows * (there - rows * pressure)
        return cost, uneven / self.total

    def candidates(self, gains: dict[int, float]) -> set[int]:
        """Where an item could go: where it saves most, and where there is most room."""
        loads = self.all_loads
        emptiest = min(range(len(loads)), key=loads.__getitem__)
        return {
            emptiest,
            *(gains if len(gains) <= _CANDIDATES else nlargest(_CANDIDATES, gains, key=gains.__getitem__)),
        }

    def neighbours(self, item: int) -> set[int]:
        """Items that share rows with one."""
        return {each for number in self.cells_of[item] for each, _ in self.cells[number]}

    def _load(self, item: int, partition: int, sign: float) -> None:
        for stream, rows in self.work[item]:
            cost = sign * rows * self.pressure[partition]
            self.loads[stream][partition] += cost
            self.all_loads[partition] += cost

    def _rank(self, stream: int) -> None:
        """The three most loaded partitions: enough to know the peak beside any two."""
        rest = self.loads[stream].copy()
        tops = []
        for _ in range(min(3, len(rest))):
            load = max(rest)
            at = rest.index(load)
            tops.append((load, at))
            rest[at] = -1.0
        self.tops[stream] = tuple(tops)


def greedy(problem: Problem, *, level: float = 1.0) -> Placement:
    """Each item, the heaviest first, where it adds least; peaks up to `level` times the unavoidable cost no more."""
    least = {stream: level * cost for stream, cost in least_peaks(problem).items()}
    floor = _Floor(problem, [_NOWHERE] * problem.items, least=least)
    for item in _heaviest_first(problem):
        gains = floor.gains(item)
        candidates = floor.candidates(gains)
        floor.put(item, min(candidates, key=_price_of(floor, item, gains)))
    return tuple(floor.at)


def improve(
    problem: Problem, placement: Placement, *, passes: int = 8, items: int | None = None, stop: Stop = never
) -> Placement:
    """A placement that costs no more: single moves, each of which helps, until none does or the passes are over.

    With `items` only so many of the heaviest are moved.
    """
    floor = _Floor(problem, placement, least={})
    everywhere = range(problem.partitions if problem.partitions <= _CANDIDATES else 0)
    order = _heaviest_first(problem)[:items]
    stale = set(order)
    for _ in range(passes):
        waiting, stale = stale, set()
        for at, item in enumerate(order):
            if at % _ASKED_EVERY == 0 and stop():
                stale.clear()
                break
            if item not in waiting:
                continue
            gains = floor.gains(item)
            before, rough = floor.price(item, floor.at[item], gains)
            after, smooth, best = min(map(_price_of(floor, item, gains), {*floor.candidates(gains), *everywhere}))
            # A move that costs nothing but evens loads out can make room for one that helps.
            better = after < before - floor.tiny or (after <= before and smooth < rough - floor.tiny)
            if best != floor.at[item] and better:
                floor.put(item, best)
                stale |= floor.neighbours(item)
        if not stale:
            break
    found = tuple(floor.at)
    return found if cost_of(problem, found).total <= cost_of(problem, placement).total else placement


def cluster(problem: Problem, *, blocks: int, largest: float, within: Placement | None = None) -> list[int]:
    """Item → block, at most about `blocks` of them: items that share most first, none heavier than `largest`.

    Merged key groups of algorithm 1, but by what they share instead of by number; the lightest fill up what is left.
    With a placement, only items of one partition are merged.
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
    number: dict[int, int] = {}
    return [number.setdefault(find(item), len(number)) for item in range(problem.items)]


def search(
    problem: Problem, *, starts: Sequence[Placement] = (), passes: float = FULL_SEARCH, stop: Stop = never
) -> Placement:
    """The best placement that about so many passes over the problem find.

    How much to pile up decides most: what is lost by one peak is won by rows sent once. So items and clusters of items
    are placed at several levels of the peak; the best of these and of the given starts are improved.
    """
    if problem.partitions == 1 or problem.items == 0:
        return (0,) * problem.items
    if passes < _DEPTHS[-1].passes and starts:
        return improve(problem, starts[0], passes=1, items=int(passes * problem.items), stop=stop)
    depth = next(depth for depth in _DEPTHS if passes >= depth.passes or depth is _DEPTHS[-1])
    found = list(starts)
    for level in depth.levels:
        found.extend(() if found and stop() else (greedy(problem, level=level),))
    for share in depth.shares:
        found.extend(() if stop() else _clustered(problem, share=share, levels=depth.levels))
    ranked = sorted(found, key=lambda placement: cost_of(problem, placement).total)
    best = _cheapest(problem, [improve(problem, each, passes=depth.rounds, stop=stop) for each in ranked[: depth.kept]])
    for share in depth.moved:
        best = best if stop() else rearrange(problem, best, share=share)
    return best


def _clustered(problem: Problem, *, share: float, levels: Sequence[float]) -> list[Placement]:
    """Clusters of up to that share of the average load, placed at each level of the peak."""
    largest = share * sum(rows for work in problem.work for _, rows in work) / problem.partitions
    blocks = cluster(problem, blocks=problem.partitions, largest=largest)
    coarse = merge_items(problem, blocks)
    found = [improve(coarse, greedy(coarse, level=level)) for level in levels]
    return [tuple(placed[block] for block in blocks) for placed in found]


def rearrange(problem: Problem, placement: Placement, *, share: float) -> Placement:
    """A placement that costs no more, by moving clusters of up to that share of the average load, then items."""
    largest = share * sum(rows for work in problem.work for _, rows in work) / problem.partitions
    blocks = cluster(problem, blocks=problem.partitions, largest=largest, within=placement)
    coarse = merge_items(problem, blocks)
    start = [0] * coarse.items
    for block, at in zip(blocks, placement, strict=True):
        start[block] = at
    moved = improve(coarse, tuple(start))
    return improve(problem, tuple(moved[block] for block in blocks))


def _cheapest(problem: Problem, placements: Sequence[Placement]) -> Placement:
    return min(placements, key=lambda placement: cost_of(problem, placement).total)


def _strongest_pairs(problem: Problem) -> list[tuple[int, int]]:
    """Pairs of items by the rows they share, most first; in large cells each member with the next."""
    shared: dict[tuple[int, int], float] = {}
    for cell in problem.cells:
        ranked = sorted(cell, key=lambda member: (-member[1], member[0]))
        for (first, _), (second, rows) in pairwise(ranked):
            pair = (first, second) if first < second else (second, first)
            shared[pair] = shared.get(pair, 0.0) + rows
    return sorted(shared, key=lambda pair: (-shared[pair], pair))


def _heaviest_first(problem: Problem) -> list[int]:
    weight = [rows + sum(each for _, each in work) for rows, work in zip(problem.send, problem.work, strict=True)]
    return sorted(range(problem.items), key=lambda item: (-weight[item], item))


def _price_of(floor: _Floor, item: int, gains: dict[int, float]) -> Callable[[int], tuple[float, float, int]]:
    def price(partition: int) -> tuple[float, float, int]:
        return (*floor.price(item, partition, gains), partition)

    return price
