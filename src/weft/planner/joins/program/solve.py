"""Probe orders of all queries by integer programming: a known solution, the relaxation, then the solver.

If queries share much, the relaxation is nearly integral, and paths that follow it are nearly the cheapest; often that
closes the gap without a search. If queries are large and share little, the bound of the relaxation is some percent too
low; then lower bounds of the cost of each query are added to it. If a gap remains, the solver first searches among the
columns that the relaxation uses, then all columns, stores before paths. For any time limit there is a solution with a
proven bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from weft.planner.disjoint_sets import disjoint_sets
from weft.planner.highs import NoAnswer, Relaxation, SolverLimits, bound_each, gap_of, relax, solve
from weft.planner.joins.lattice import Lattice
from weft.planner.joins.paths import Routing, improve_paths, least_cost, route
from weft.planner.joins.program.lower_bounds import Shape, shape_of
from weft.planner.joins.program.model import ProbeModel, build_model, reachable

_EXACT = 1e-9
"""A gap up to this size is only rounding."""
_UNUSED = 1e-7
"""The relaxation does not use a column whose value is below this."""
_TRUST = 1e-3
"""The share of the true cost that chosen edges and copies keep in a guide, so that paths with fewer steps win."""
_SUPPORT_SHARE = 0.4
"""The share of the time for the search among the columns that the relaxation uses."""
_LEAST_EDGES = 500
"""Independent parts of small queries are merged until they have this many edges: each call of the solver has a cost."""
_LARGE_QUERY = 4
"""For queries with at least this many relations, the relaxation can be far below the cost."""
_WIDE, _SMALL_GAP = 2.0, 0.005
"""A gap is wide if it exceeds `_WIDE` times the larger of the requested gap and `_SMALL_GAP`."""
_LITTLE_SHARED = 1.2
"""Queries share little if their separate costs add up to at most this many times their cost together."""
_FLOOR_SHARE = 0.7
"""The share of the remaining time for finding the costs of single queries."""


@dataclass(frozen=True, slots=True)
class Routed:
    """Paths, and a lower bound of the cost of any paths."""

    routing: Routing
    bound: float


@dataclass(slots=True)
class _Search:
    """One independent part during the search: the best paths so far, the proven bound, and the remaining limits."""

    lattice: Lattice
    groups: tuple[tuple[int, ...], ...]
    limits: SolverLimits
    best: Routing
    bound: float = 0.0
    followed: tuple[ProbeModel, Relaxation] | None = None
    """The program and its relaxation, if the relaxation was solved."""

    @property
    def targets(self) -> tuple[int, ...]:
        return tuple(node for group in self.groups for node in group)

    @property
    def has_large(self) -> bool:
        return any(len(group) >= _LARGE_QUERY for group in self.groups)

    def gap(self) -> float:
        return gap_of(self.best.cost(), self.bound)

    def done(self) -> bool:
        return self.gap() <= max(_EXACT, self.limits.gap)

    def offer(self, routing: Routing) -> None:
        if routing.cost() < self.best.cost():
            self.best = routing

    def spend(self, time: timedelta) -> None:
        self.limits = replace(self.limits, time=max(timedelta(0), self.limits.time - time))


def solve_paths(
    lattice: Lattice, groups: Sequence[tuple[int, ...]], limits: SolverLimits, *, first: Routing | None = None
) -> Routed:
    """Return the cheapest paths found to all nodes of all groups (one per query); `first` is a known solution."""
    searches = [_begin(lattice, part, limits, first) for part in independent_parts(lattice, groups)]
    limits = _in_turn(searches, limits, lambda search: _follow_relaxation(search, {}))
    floors: Mapping[Shape, float] = {}
    if len(groups) > 1:  # the search below solves a single query in any case
        floors, spent = _costs_alone([search for search in searches if _should_learn(search)], limits)
        limits = replace(limits, time=max(timedelta(0), limits.time - spent))
    _in_turn([search for search in searches if not search.done()], limits, lambda search: _search(search, floors))
    paths: dict[int, tuple[int, ...]] = {}
    copies: dict[int, int] = {}
    for search in searches:
        paths |= search.best.paths
        copies |= search.best.edge_copy
    routing = Routing(lattice)
    routing.resume(paths, copies, [node for group in groups for node in group])
    return Routed(routing, sum(min(search.bound, search.best.cost()) for search in searches))


def _begin(lattice: Lattice, part: tuple[tuple[int, ...], ...], limits: SolverLimits, first: Routing | None) -> _Search:
    targets = [node for group in part for node in group]
    search = _Search(lattice, part, limits, route(lattice, targets))
    if first is not None:
        search.offer(_restricted(first, targets))
    return search


def _in_turn(searches: Sequence[_Search], limits: SolverLimits, step: Callable[[_Search], object]) -> SolverLimits:
    """Run a step of each search in order, each within its share of the time; later searches get the unused time."""
    for i, search in enumerate(searches):
        share = limits.time * len(search.groups) / sum(len(other.groups) for other in searches[i:])
        search.limits = replace(limits, time=share)
        step(search)
        limits = replace(limits, time=max(timedelta(0), limits.time - share + search.limits.time))
    return limits


def _restricted(routing: Routing, targets: Sequence[int]) -> Routing:
    """Return the part of a routing that serves these targets."""
    lattice = routing.lattice
    paths: dict[int, tuple[int, ...]] = {}
    waiting = list(targets)
    while waiting:
        node = waiting.pop()
        if node not in paths:
            paths[node] = routing.paths[node]
            for edge in paths[node]:
                waiting.extend(lattice.upkeep[lattice.edges[edge].store])
    part = Routing(lattice)
    edges = {edge for path in paths.values() for edge in path}
    part.resume(paths, {edge: routing.edge_copy[edge] for edge in sorted(edges)}, targets)
    return part


def _follow_relaxation(search: _Search, floors: Mapping[Shape, float]) -> None:
    """Bound the cost by the relaxation and offer paths that follow it; if it is not solved, improve the best paths."""
    search.followed = None
    known = [(group, floor) for group in search.groups if (floor := floors.get(_shape(search.lattice, group)))]
    model = build_model(search.lattice, search.targets, most=search.best.cost(), floors=known)
    relaxed = relax(model.model, search.limits)
    search.spend(relaxed.time)
    if isinstance(relaxed, NoAnswer):
        search.bound = max(search.bound, least_cost(search.lattice, search.targets))
        improve_paths(search.best, search.groups, rounds=3)
        return
    search.bound = max(search.bound, relaxed.cost / model.scale)
    before = search.best
    search.offer(route(search.lattice, search.targets, model.guide(relaxed.values, least=_TRUST)))
    if not search.done() and search.has_large and (search.best is not before or not floors):
        improve_paths(search.best, search.groups, rounds=3)
    search.followed = model, relaxed


def _search(search: _Search, floors: Mapping[Shape, float]) -> None:
    """Solve the relaxation with the floors, search the columns that it uses, then search all columns."""
    if floors and any(_shape(search.lattice, group) in floors for group in search.groups):
        _follow_relaxation(search, floors)
    if search.followed is None:
        return
    model, relaxed = search.followed
    if search.has_large and len(search.groups) > 1 and not search.done():
        _solve_support(search, model, relaxed)
    if not search.done():
        _solve_all(search, model)


def _should_learn(search: _Search) -> bool:
    """Return whether lower bounds of single queries are worth finding: large queries, a wide gap and little sharing."""
    if not search.has_large or search.gap() <= _WIDE * max(search.limits.gap, _SMALL_GAP):
        return False
    separate_cost = sum(_restricted(search.best, group).cost() for group in search.groups)
    return separate_cost <= _LITTLE_SHARED * search.best.cost()


def _costs_alone(searches: Sequence[_Search], limits: SolverLimits) -> tuple[dict[Shape, float], timedelta]:
    """Return a lower bound of the cost of each large query by shape, and the time spent."""
    programs: dict[Shape, tuple[ProbeModel, Routing]] = {}
    for search in searches:
        for group in search.groups:
            shape = _shape(search.lattice, group)
            if len(group) >= _LARGE_QUERY and shape not in programs:
                best = _restricted(search.best, group)
                programs[shape] = build_model(search.lattice, group, most=best.cost()), best
    limits = replace(limits, time=limits.time * _FLOOR_SHARE, gap=limits.gap / 2)
    bounds, time = bound_each([(model.stores_first(), model.encode(best)) for model, best in programs.values()], limits)
    return {
        shape: bound / model.scale
        for (shape, (model, _)), bound in zip(programs.items(), bounds, strict=True)
        if bound > 0
    }, time  # fmt: skip


def _shape(lattice: Lattice, group: tuple[int, ...]) -> Shape:
    node = lattice.nodes[group[0]]
    return shape_of(lattice.estimates, node.inputs, node.predicates) if len(group) >= _LARGE_QUERY else (group,)


def _solve_support(search: _Search, model: ProbeModel, relaxed: Relaxation) -> None:
    """Search among the columns that the relaxation or the best paths use."""
    known = model.encode(search.best)
    highs = [
        0.0 if value < _UNUSED and known[column] == 0 else high
        for column, (value, high) in enumerate(zip(relaxed.values, model.model.highs, strict=True))
    ]
    limits = replace(search.limits, time=search.limits.time * _SUPPORT_SHARE, gap=search.limits.gap / 2)
    outcome = solve(replace(model.stores_first(), highs=highs), limits, first=known)
    search.spend(outcome.time)
    if not isinstance(outcome, NoAnswer):
        routing = route(search.lattice, search.targets, model.guide(outcome.values))
        improve_paths(routing, search.groups, rounds=2)
        search.offer(routing)


def _solve_all(search: _Search, model: ProbeModel) -> None:
    """Search all columns; with large queries, first with only stores as integers, then, if a gap remains, with all."""
    for program in (model.stores_first(), model.model) if search.has_large else (model.model,):
        if search.done():
            break
        outcome = solve(program, search.limits, first=model.encode(search.best))
        search.spend(outcome.time)
        search.bound = max(search.bound, outcome.bound / model.scale)
        if not isinstance(outcome, NoAnswer):
            shorter = route(search.lattice, search.targets, model.guide(outcome.values, least=_TRUST))
            search.offer(route(search.lattice, search.targets, model.guide(outcome.values)))
            search.offer(shorter)


def independent_parts(
    lattice: Lattice, groups: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, ...], ...], ...]:  # fmt: skip
    """Divide the groups into parts without common edges and copies; small parts of small queries are merged."""
    owner: dict[tuple[str, int], int] = {}
    find, join = disjoint_sets(len(groups))
    sizes = [0] * len(groups)
    for number, group in enumerate(groups):
        edges = {edge for options in reachable(lattice, group).values() for edge in options}
        copies = {copy for edge in edges for copy in lattice.serving(edge)}
        sizes[number] = len(edges)
        for key in (*(("edge", edge) for edge in edges), *(("copy", copy) for copy in copies)):
            join(number, owner.setdefault(key, number))
    members: dict[int, list[int]] = {}
    for number in range(len(groups)):
        members.setdefault(find(number), []).append(number)
    parts: list[list[int]] = []
    small: list[int] = []
    for part in members.values():
        if any(len(groups[number]) >= _LARGE_QUERY for number in part):
            parts.append(part)
            continue
        small.extend(part)
        if sum(sizes[number] for number in small) >= _LEAST_EDGES:
            parts.append(small)
            small = []
    if small:
        parts.append(small)
    return tuple(tuple(groups[number] for number in sorted(part)) for part in sorted(parts, key=len))
