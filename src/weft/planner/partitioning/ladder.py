"""Algorithm 1: from the exact program down to simpler ones, until one proves to be good enough or time is over.

Every rung works on one set of connected streams, starts from the best answer so far and can only better it. Time is
divided beforehand, so that nothing here reads a clock; who has one can say when to stop.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from weft.errors import InternalError
from weft.planner.partitioning.model import Solved, model_size, solve_exactly
from weft.planner.partitioning.problem import (
    Placement,
    Problem,
    bound_of,
    cost_of,
    disjoint_sets,
    merge_items,
    part_of,
)
from weft.planner.partitioning.search import FULL_SEARCH, LOOKS_PER_SECOND, Stop, cluster, improve, never, search
from weft.planner.partitioning.workload import PartitioningLimits, Rung, relative_gap

_Find: TypeAlias = Callable[[int], int]
_Join: TypeAlias = Callable[[int, int], None]

_NONZEROS_PER_SECOND = 20_000
"""A larger model would not get past its first relaxation."""
_LARGEST_MODEL = 60_000
_SEARCHES = dict.fromkeys(Rung, 0.0) | {
    Rung.MERGED_KEY_GROUPS: 1.0,
    Rung.MERGED_PARTITIONS: 2.0,
    Rung.TREE: 4.0,
    Rung.HYBRID: 1.5,
}
"""How many searches of the whole problem a rung amounts to, beside the solver."""
_TREE_QUERIES = 64
_HYBRID_QUERIES = 8
"""How many units are optimized together in hybrid execution."""
_SHORTEST = 0.02
"""Seconds below which calling the solver is not worth it."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What one rung may spend."""

    seconds: float
    gap: float
    seed: int

    def part(self, share: float) -> Effort:
        """A share of the time."""
        return Effort(self.seconds * share, self.gap, self.seed)


@dataclass(frozen=True, slots=True)
class Step:
    """A rung that was tried: the cost of its own answer, and what it proved."""

    rung: Rung
    cost: float
    bound: float


def climb(
    problem: Problem, start: Placement, *, limits: PartitioningLimits, stop: Stop = never
) -> tuple[Solved, tuple[Step, ...]]:
    """The best placement of all rungs tried, never worse than the start, and the steps that led to it."""
    cost = cost_of(problem, start).total
    best = Solved(start, cost, min(bound_of(problem), cost))
    steps: list[Step] = []
    gap, seconds = limits.gap, limits.seconds
    for iteration in range(limits.iterations):
        for left, rung in zip(range(len(limits.rungs), 0, -1), limits.rungs, strict=True):
            if relative_gap(best.cost, best.bound) <= gap or stop():
                return best, tuple(steps)
            last = left == 1 and iteration == limits.iterations - 1
            share = seconds if last else seconds / 2
            found = run_rung(rung, problem, best, effort=Effort(share, gap, limits.seed), iteration=iteration)
            if found is None:
                continue
            seconds -= share
            steps.append(Step(rung, found.cost, found.bound))
            best = Solved(*_better(best, found), bound=min(best.cost, found.cost, max(best.bound, found.bound)))
        gap *= 2
    return best, tuple(steps)


def run_rung(rung: Rung, problem: Problem, best: Solved, *, effort: Effort, iteration: int = 0) -> Solved | None:
    """One rung's answer for the whole problem, or None if it has nothing to offer for this problem or this time."""
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
    """How long a full search takes at most."""
    return FULL_SEARCH * problem.size / LOOKS_PER_SECOND


def fits(problem: Problem, seconds: float) -> bool:
    """The exact program is small enough to be worth a call of this long."""
    return seconds >= _SHORTEST and model_size(problem) <= min(_LARGEST_MODEL, _NONZEROS_PER_SECOND * seconds)


def _exact(problem: Problem, best: Solved, effort: Effort) -> Solved | None:
    """Heuristics 2 and 3: eq. 1–10 with a gap and a time budget."""
    if not fits(problem, effort.seconds):
        return None
    return solve_exactly(problem, best.placement, seconds=effort.seconds, gap=effort.gap, seed=effort.seed)


def _merged_key_groups(problem: Problem, effort: Effort, iteration: int) -> Solved | None:
    """Heuristic 4: key groups merged until half are left, halved again until the program is small enough."""
    average = _load(problem) / problem.partitions
    blocks = problem.items >> (iteration + 1)
    while blocks > problem.partitions:
        block_of = cluster(problem, blocks=blocks, largest=average)
        coarse = merge_items(problem, block_of)
        if fits(coarse, effort.seconds) or blocks // 2 <= problem.partitions:
            return _finish(problem, _spread(_core(coarse, effort), block_of))
        blocks //= 2
    return None


def _merged_partitions(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 7: first over logical partitions, then within each; as many logical ones as there are in each."""
    if problem.partitions < 4:
        return None
    groups = _logical(problem)
    logical = Problem(
        send=problem.send,
        work=problem.work,
        unit=problem.unit,
        cells=problem.cells,
        latency=tuple(sum(problem.latency[at] for at in group) / len(group) for group in groups),
        # The members of a logical partition work side by side.
        pressure=tuple(sum(problem.pressure[at] for at in group) / len(group) ** 2 for group in groups),
    )
    upper = _core(logical, effort.part(0.5))
    placement = [0] * problem.items
    for number, group in enumerate(groups):
        items = [item for item, at in enumerate(upper) if at == number]
        if items:
            lower = _core(part_of(problem, items, partitions=group), effort.part(0.5 / len(groups)))
            for item, at in zip(items, lower, strict=True):
                placement[item] = group[at]
    return _finish(problem, tuple(placement))


def _tree(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 5: queries two by two, then pairs of pairs; what came to lie together stays together."""
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
            part = part_of(problem, items)
            names: dict[int, int] = {}
            block_of = [names.setdefault(find(item), len(names)) for item in items]
            found = _spread(_core(merge_items(part, block_of), per_node), block_of)
            for item, at in zip(items, found, strict=True):
                placement[item] = at
            _fuse(part, found, items=items, largest=average / 2, join=(find, join))
        leaves = merged
    return _finish(problem, tuple(placement))


def _hybrid(problem: Problem, effort: Effort) -> Solved | None:
    """Heuristic 6: similar queries are optimized together, groups of them apart and not shared."""
    leaves = _by_unit(problem)
    groups = [leaves[at : at + _HYBRID_QUERIES] for at in range(0, len(leaves), _HYBRID_QUERIES)]
    if len(groups) < 2:
        return None
    placement = [0] * problem.items
    for group in groups:
        items = [item for leaf in group for item in leaf]
        found = _core(part_of(problem, items), effort.part(1.0 / len(groups)))
        for item, at in zip(items, found, strict=True):
            placement[item] = at
    return _finish(problem, tuple(placement))


def _core(problem: Problem, effort: Effort) -> Placement:
    """A small problem by the solver, a large one by search."""
    start = search(problem)
    seconds = effort.seconds - search_seconds(problem)
    if not fits(problem, seconds):
        return start
    return solve_exactly(problem, start, seconds=seconds, gap=effort.gap, seed=effort.seed).placement


def _finish(problem: Problem, placement: Placement) -> Solved:
    """A coarse answer, polished on the whole problem; a simplified program proves nothing about it."""
    better = improve(problem, placement)
    return Solved(better, cost_of(problem, better).total, bound_of(problem))


def _better(one: Solved, other: Solved) -> tuple[Placement, float]:
    best = other if other.cost < one.cost else one
    return best.placement, best.cost


def _spread(coarse: Placement, block_of: Sequence[int]) -> Placement:
    return tuple(coarse[block] for block in block_of)


def _load(problem: Problem) -> float:
    return sum(rows for work in problem.work for _, rows in work)


def _logical(problem: Problem) -> list[list[int]]:
    """Partitions of like latency, together."""
    order = sorted(range(problem.partitions), key=lambda at: (problem.latency[at], at))
    size = math.isqrt(problem.partitions)
    return [order[at : at + size] for at in range(0, len(order), size)]


def _by_unit(problem: Problem) -> list[list[int]]:
    """Items of each unit; units that read the same streams are neighbours."""
    leaves: defaultdict[int, list[int]] = defaultdict(list)
    reads: defaultdict[int, set[int]] = defaultdict(set)
    for item, unit in enumerate(problem.unit):
        leaves[unit].append(item)
        reads[unit].update(stream for stream, _ in problem.work[item])
    return [leaves[unit] for unit in sorted(leaves, key=lambda unit: (sorted(reads[unit]), unit))]


def _pairs(problem: Problem, leaves: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Leaves two by two, those that share most first; one may be left over."""
    leaf_of = {item: number for number, leaf in enumerate(leaves) for item in leaf}
    shared: defaultdict[tuple[int, int], float] = defaultdict(float)
    for cell in problem.cells:
        least = min(rows for _, rows in cell)
        members = sorted({leaf_of[item] for item, _ in cell})
        for at, one in enumerate(members):
            for other in members[at + 1 :]:
                shared[one, other] += least
    free = set(range(len(leaves)))
    pairs: list[tuple[int, ...]] = []
    for one, other in sorted(shared, key=lambda pair: (-shared[pair], pair)):
        if one in free and other in free:
            free -= {one, other}
            pairs.append((one, other))
    rest = sorted(free)
    return [*pairs, *(tuple(rest[at : at + 2]) for at in range(0, len(rest), 2))]


def _fuse(part: Problem, placed: Placement, *, items: Sequence[int], largest: float, join: tuple[_Find, _Join]) -> None:
    """Items of one partition that share rows become one, unless that would be too heavy to be balanced later."""
    find, merge = join
    load: defaultdict[int, float] = defaultdict(float)
    for item, work in zip(items, part.work, strict=True):
        load[find(item)] += sum(rows for _, rows in work)
    for cell in part.cells:
        at = {placed[item]: items[item] for item, _ in reversed(cell)}
        for item, _ in cell:
            one, other = find(at[placed[item]]), find(items[item])
            if one != other and load[one] + load[other] <= largest:
                weight = load[one] + load[other]
                merge(one, other)
                load[find(one)] = weight
