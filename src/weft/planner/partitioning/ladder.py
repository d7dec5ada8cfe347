"""Algorithm 1: a ladder from the exact program to simpler ones, until the gap is small enough or time is over.

Every rung works on one set of connected streams, and the best answer so far is kept. Time is divided in advance:
nothing here reads a clock, but a caller with a clock can pass `stop`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from weft.errors import InternalError
from weft.planner.disjoint_sets import disjoint_sets
from weft.planner.partitioning.model import Solved, model_size, solve_exactly
from weft.planner.partitioning.problem import (
    Placement,
    Problem,
    cost_of,
    lower_bound,
    merge_items,
    subproblem,
)
from weft.planner.partitioning.search import (
    FULL_SEARCH,
    LOOKS_PER_SECOND,
    Stop,
    cluster,
    improve_assignment,
    never,
    search,
)
from weft.planner.partitioning.workload import PartitioningLimits, Rung, relative_gap

_Find: TypeAlias = Callable[[int], int]
_Join: TypeAlias = Callable[[int, int], None]

_NONZEROS_PER_SECOND = 20_000
"""With a larger model, the solver would not get past the first relaxation."""
_LARGEST_MODEL = 60_000
_SEARCHES = dict.fromkeys(Rung, 0.0) | {
    Rung.MERGED_KEY_GROUPS: 1.0,
    Rung.MERGED_PARTITIONS: 2.0,
    Rung.TREE: 4.0,
    Rung.HYBRID: 1.5,
}
"""The time of each rung besides the solver, in full searches of the whole problem."""
_TREE_QUERIES = 64
_HYBRID_QUERIES = 8
"""The number of units that hybrid execution optimizes together."""
_SHORTEST = 0.02
"""Seconds below which calling the solver is not worth it."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of one rung."""

    seconds: float
    gap: float
    seed: int

    def part(self, share: float) -> Effort:
        """Return the same limits with a share of the time."""
        return Effort(self.seconds * share, self.gap, self.seed)


@dataclass(frozen=True, slots=True)
class TriedRung:
    """A rung that was tried, with the cost of its own answer and the bound that it proved."""

    rung: Rung
    cost: float
    bound: float


def climb(
    problem: Problem, start: Placement, *, limits: PartitioningLimits, stop: Stop = never
) -> tuple[Solved, tuple[TriedRung, ...]]:
    """Return the best placement of the start and all rungs tried, and the rungs tried as steps."""
    cost = cost_of(problem, start).total
    best = Solved(start, cost, min(lower_bound(problem), cost))
    steps: list[TriedRung] = []
    gap, seconds = limits.gap, limits.seconds
    for iteration in range(limits.iterations):
        for rungs_left, rung in zip(range(len(limits.rungs), 0, -1), limits.rungs, strict=True):
            if relative_gap(best.cost, best.bound) <= gap or stop():
                return best, tuple(steps)
            last = rungs_left == 1 and iteration == limits.iterations - 1
            share = seconds if last else seconds / 2
            solved = run_rung(rung, problem, best, effort=Effort(share, gap, limits.seed), iteration=iteration)
            if solved is None:
                continue
            seconds -= share
            steps.append(TriedRung(rung, solved.cost, solved.bound))
            best = Solved(*_better(best, solved), bound=min(best.cost, solved.cost, max(best.bound, solved.bound)))
        gap *= 2
    return best, tuple(steps)


def run_rung(rung: Rung, problem: Problem, best: Solved, *, effort: Effort, iteration: int = 0) -> Solved | None:
    """Return a rung's answer for the whole problem, or None if the rung does not apply or the time is too short."""
    if effort.seconds < max(_SHORTEST, _SEARCHES[rung] * search_seconds(problem)):
        return None
    match rung:
        case Rung.EXACT:
            return _exact(problem, best, effort)
        case Rung.MERGED_KEY_GROUPS:
            return _merged_key_groups(problem, effort, iteration)
        case Rung.MERGED_PARTITIONS:
            return _merged_partitions(problem, effort)
        case Rung.TREE:
            return _tree(problem, effort)
        case Rung.HYBRID:
            return _hybrid(problem, effort)
        case Rung.HASHING | Rung.CURRENT | Rung.SEARCH:
            raise InternalError(f'"{rung}" is no rung of the ladder')
        case _:
            assert_never(rung)


def search_seconds(problem: Problem) -> float:
    """Return the estimated seconds of a full search."""
    return FULL_SEARCH * problem.size / LOOKS_PER_SECOND


def fits_limits(problem: Problem, seconds: float) -> bool:
    """Return whether the exact program is small enough for a solver call of this many seconds."""
    return seconds >= _SHORTEST and model_size(problem) <= min(_LARGEST_MODEL, _NONZEROS_PER_SECOND * seconds)


def _exact(problem: Problem, best: Solved, effort: Effort) -> Solved | None:
    """Heuristics 2 and 3: solve eq. 1–10 with a gap and a time limit."""
    if not fits_limits(problem, effort.seconds):
        return None
    return solve_exactly(problem, best.placement, seconds=effort.seconds, gap=effort.gap, seed=effort.seed)


def _merged_key_groups(problem: Problem, effort: Effort, iteration: int) -> Solved | None:
    """Heuristic 4: merge key groups until half are left, and halve again until the program is small enough."""
    average = _load(problem) / problem.partitions
    blocks = problem.items >> (iteration + 1)
    while blocks > problem.partitions:
        block_of = cluster(problem, blocks=blocks, largest=average)
        coarse = merge_items(problem, block_of)
        if fits_limits(coarse, effort.seconds) or blocks // 2 <= problem.partitions:
            return _finish(problem, _spread(_core(coarse, effort), block_of))
        blocks //= 2
    return None


def _merged_partitions(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 7: place items on about √P logical partitions, then on the partitions within each."""
    if problem.partitions < 4:
        return None
    groups = _logical(problem)
    logical = Problem(
        send=problem.send,
        work=problem.work,
        unit=problem.unit,
        cells=problem.cells,
        latency=tuple(sum(problem.latency[partition] for partition in group) / len(group) for group in groups),
        # The members of a logical partition work in parallel.
        pressure=tuple(sum(problem.pressure[partition] for partition in group) / len(group) ** 2 for group in groups),
    )
    upper = _core(logical, effort.part(0.5))
    placement = [0] * problem.items
    for number, group in enumerate(groups):
        items = [item for item, partition in enumerate(upper) if partition == number]
        if items:
            lower = _core(subproblem(problem, items, partitions=group), effort.part(0.5 / len(groups)))
            for item, member in zip(items, lower, strict=True):
                placement[item] = group[member]
    return _finish(problem, tuple(placement))


def _tree(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 5: optimize pairs of queries, then pairs of pairs; items placed together stay together."""
    leaves = _by_unit(problem)
    if not 2 < len(leaves) <= _TREE_QUERIES:
        return None
    per_node = effort.part(1.0 / (len(leaves) - 1))
    average = _load(problem) / problem.partitions
    find, join = disjoint_sets(problem.items)
    placement = [0] * problem.items
    while len(leaves) > 1:
        merged: list[list[int]] = []
        for pair in _pairs(problem, leaves):
            items = [item for number in pair for item in leaves[number]]
            merged.append(items)
            if len(pair) == 1:
                continue
            part = subproblem(problem, items)
            names: dict[int, int] = {}
            block_of = [names.setdefault(find(item), len(names)) for item in items]
            placed = _spread(_core(merge_items(part, block_of), per_node), block_of)
            for item, partition in zip(items, placed, strict=True):
                placement[item] = partition
            _fuse(part, placed, items=items, largest=average / 2, join=(find, join))
        leaves = merged
    return _finish(problem, tuple(placement))


def _hybrid(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 6: optimize groups of similar queries separately, without sharing between groups."""
    leaves = _by_unit(problem)
    groups = [leaves[begin : begin + _HYBRID_QUERIES] for begin in range(0, len(leaves), _HYBRID_QUERIES)]
    if len(groups) < 2:
        return None
    placement = [0] * problem.items
    for group in groups:
        items = [item for leaf in group for item in leaf]
        placed = _core(subproblem(problem, items), effort.part(1.0 / len(groups)))
        for item, partition in zip(items, placed, strict=True):
            placement[item] = partition
    return _finish(problem, tuple(placement))


def _core(problem: Problem, effort: Effort) -> Placement:
    """Place a small problem with the solver, a large one by search."""
    start = search(problem)
    seconds = effort.seconds - search_seconds(problem)
    if not fits_limits(problem, seconds):
        return start
    return solve_exactly(problem, start, seconds=seconds, gap=effort.gap, seed=effort.seed).placement


def _finish(problem: Problem, placement: Placement) -> Solved:
    """Improve a coarse placement on the whole problem. The bound of a simplified program would not hold for it."""
    better = improve_assignment(problem, placement)
    return Solved(better, cost_of(problem, better).total, lower_bound(problem))


def _better(one: Solved, other: Solved) -> tuple[Placement, float]:
    best = other if other.cost < one.cost else one
    return best.placement, best.cost


def _spread(coarse: Placement, block_of: Sequence[int]) -> Placement:
    return tuple(coarse[block] for block in block_of)


def _load(problem: Problem) -> float:
    return sum(rows for work in problem.work for _, rows in work)


def _logical(problem: Problem) -> list[list[int]]:
    """Return logical partitions: groups of partitions with similar latencies."""
    order = sorted(range(problem.partitions), key=lambda partition: (problem.latency[partition], partition))
    size = math.isqrt(problem.partitions)
    return [order[begin : begin + size] for begin in range(0, len(order), size)]


def _by_unit(problem: Problem) -> list[list[int]]:
    """Return the items of each unit, with units that read the same streams next to each other."""
    leaves: defaultdict[int, list[int]] = defaultdict(list)
    reads: defaultdict[int, set[int]] = defaultdict(set)
    for item, unit in enumerate(problem.unit):
        leaves[unit].append(item)
        reads[unit].update(stream for stream, _ in problem.work[item])
    return [leaves[unit] for unit in sorted(leaves, key=lambda unit: (sorted(reads[unit]), unit))]


def _pairs(problem: Problem, leaves: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Pair leaves, those that share most rows first; one leaf may stay single."""
    leaf_of = {item: number for number, leaf in enumerate(leaves) for item in leaf}
    shared: defaultdict[tuple[int, int], float] = defaultdict(float)
    for cell in problem.cells:
        least = min(rows for _, rows in cell)
        members = sorted({leaf_of[item] for item, _ in cell})
        for position, one in enumerate(members):
            for other in members[position + 1 :]:
                shared[one, other] += least
    free = set(range(len(leaves)))
    pairs: list[tuple[int, ...]] = []
    for one, other in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        if one in free and other in free:
            free -= {one, other}
            pairs.append((one, other))
    unpaired = sorted(free)
    return [*pairs, *(tuple(unpaired[begin : begin + 2]) for begin in range(0, len(unpaired), 2))]


def _fuse(part: Problem, placed: Placement, *, items: Sequence[int], largest: float, join: tuple[_Find, _Join]) -> None:
    """Merge items of one partition that share rows, unless the result would be too heavy to balance later."""
    find, merge = join
    load: defaultdict[int, float] = defaultdict(float)
    for item, work in zip(items, part.work, strict=True):
        load[find(item)] += sum(rows for _, rows in work)
    for cell in part.cells:
        first_at = {placed[item]: items[item] for item, _ in reversed(cell)}
        for item, _ in cell:
            one, other = find(first_at[placed[item]]), find(items[item])
            if one != other and load[one] + load[other] <= largest:
                weight = load[one] + load[other]
                merge(one, other)
                load[find(one)] = weight
