"""Probe orders of all queries by integer programming: a known answer, the relaxation, then the solver.

The relaxation is nearly whole-numbered where queries share much, so paths that follow it are nearly the cheapest;
often that closes the gap and the solver need not search at all. Where it does not, the solver first searches among
what the relaxation uses. Of large queries that share little the relaxation alone is some percent off: then it is told
what each costs at least alone. Only then everything is searched, stores before paths. Whatever the time, there is an
answer with a proven bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from weft.planner.highs import Limits, NoAnswer, Relaxation, bound_each, gap_of, relax, solve
from weft.planner.joins.lattice import Lattice
from weft.planner.joins.paths import Routing, improve, least_cost, route
from weft.planner.joins.program.lower_bounds import Shape, shape_of
from weft.planner.joins.program.model import ProbeModel, build_model, reachable

_EXACT = 1e-9
"""A gap that is nothing but rounding."""
_UNUSED = 1e-7
"""Below it the relaxation does not use a column."""
_TRUST = 1e-3
"""Fraction of its cost that what the relaxation has chosen still costs: fewer steps are better."""
_SUPPORT_SHARE = 0.4
"""Of the time, for the search among what the relaxation uses."""
_LEAST_EDGES = 500
"""Independent parts are solved apart, but those of small queries together: each call of the solver has its price."""
_LARGE_QUERY = 4
"""Relations from which the relaxation of a single query can be far from its cost."""
_WIDE, _SMALL_GAP = 2.0, 0.005
"""A gap is wide if it is so many times what was asked for, or than this."""
_LITTLE_SHARED = 1.2
"""How much more queries may cost one by one than together for their costs alone to say much about all of them."""
_FLOOR_SHARE = 0.7
"""Of the time that is left, to find what queries cost alone."""


@dataclass(frozen=True, slots=True)
class Routed:
    """Paths, and a cost that no paths can beat."""

    routing: Routing
    bound: float


@dataclass(slots=True)
class _Search:
    """One independent part while it is being solved: the best so far, what is proven, the time that is left."""

    lattice: Lattice
    groups: tuple[tuple[int, ...], ...]
    limits: Limits
    best: Routing
    bound: float = 0.0
    followed: tuple[ProbeModel, Relaxation] | None = None
    """The program and its relaxation, if that has an answer."""

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
    lattice: Lattice, groups: Sequence[tuple[int, ...]], limits: Limits, *, first: Routing | None = None
) -> Routed:
    """The cheapest paths to all nodes of all groups (one group per query) within the limits, from a known answer."""
    searches = [_begin(lattice, part, limits, first) for part in independent_parts(lattice, groups)]
    limits = _in_turn(searches, limits, lambda search: _follow_relaxation(search, {}))
    floors: Mapping[Shape, float] = {}
    if len(groups) > 1:  # a query that is alone anyway is searched below
        floors, time = _costs_alone([search for search in searches if _should_learn(search)], limits)
        limits = replace(limits, time=max(timedelta(0), limits.time - time))
    _in_turn([search for search in searches if not search.done()], limits, lambda search: _search(search, floors))
    paths: dict[int, tuple[int, ...]] = {}
    copies: dict[int, int] = {}
    for search in searches:
        paths |= search.best.paths
        copies |= search.best.edge_copy
    whole = Routing(lattice)
    whole.resume(paths, copies, [node for group in groups for node in group])
    return Routed(whole, sum(min(search.bound, search.best.cost()) for search in searches))


def _begin(lattice: Lattice, part: tuple[tuple[int, ...], ...], limits: Limits, first: Routing | None) -> _Search:
    targets = [node for group in part for node in group]
    search = _Search(lattice, part, limits, route(lattice, targets))
    if first is not None:
        search.offer(_restricted(first, targets))
    return search


def _in_turn(searches: Sequence[_Search], limits: Limits, step: Callable[[_Search], object]) -> Limits:
    """Take a step in each, smaller ones first, within its share of the time: what one leaves is for those after it."""
    for at, search in enumerate(searches):
        share = limits.time * len(search.groups) / sum(len(each.groups) for each in searches[at:])
        search.limits = replace(limits, time=share)
        step(search)
        limits = replace(limits, time=max(timedelta(0), limits.time - share + search.limits.time))
    return limits


def _restricted(routing: Routing, targets: Sequence[int]) -> Routing:
    """What of a routing serves these targets."""
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
    """Bound the cost by the relaxation and follow it; without one the best is made of what there is."""
    search.followed = None
    known = [(group, floor) for group in search.groups if (floor := floors.get(_shape(search.lattice, group)))]
    model = build_model(search.lattice, search.targets, most=search.best.cost(), floors=known)
    relaxed = relax(model.model, search.limits)
    search.spend(relaxed.time)
    if isinstance(relaxed, NoAnswer):
        search.bound = max(search.bound, least_cost(search.lattice, search.targets))
        improve(search.best, search.groups, rounds=3)
        return
    search.bound = max(search.bound, relaxed.cost / model.scale)
    before = search.best
    search.offer(route(search.lattice, search.targets, model.guide(relaxed.values, least=_TRUST)))
    if not search.done() and search.has_large and (search.best is not before or not floors):
        improve(search.best, search.groups, rounds=3)
    search.followed = model, relaxed


def _search(search: _Search, floors: Mapping[Shape, float]) -> None:
    """The relaxation with what is known of queries alone, a search among what it uses, a search of everything."""
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
    """Whether costs alone are worth finding: of large queries that share so little that the gap is wide."""
    if not search.has_large or search.gap() <= _WIDE * max(search.limits.gap, _SMALL_GAP):
        return False
    apart = sum(_restricted(search.best, group).cost() for group in search.groups)
    return apart <= _LITTLE_SHARED * search.best.cost()


def _costs_alone(searches: Sequence[_Search], limits: Limits) -> tuple[dict[Shape, float], timedelta]:
    """What the large queries cost alone at least, each shape worked out once; and the time that took."""
    found: dict[Shape, tuple[ProbeModel, Routing]] = {}
    for search in searches:
        for group in search.groups:
            shape = _shape(search.lattice, group)
            if len(group) >= _LARGE_QUERY and shape not in found:
                best = _restricted(search.best, group)
                found[shape] = build_model(search.lattice, group, most=best.cost()), best
    limits = replace(limits, time=limits.time * _FLOOR_SHARE, gap=limits.gap / 2)
    bounds, time = bound_each([(model.stores_first(), model.encode(best)) for model, best in found.values()], limits)
    return {
        shape: bound / model.scale
        for (shape, (model, _)), bound in zip(found.items(), bounds, strict=True)
        if bound > 0
    }, time  # fmt: skip


def _shape(lattice: Lattice, group: tuple[int, ...]) -> Shape:
    node = lattice.nodes[group[0]]
    return shape_of(lattice.estimates, node.inputs, node.predicates) if len(group) >= _LARGE_QUERY else (group,)


def _solve_support(search: _Search, model: ProbeModel, relaxed: Relaxation) -> None:
    """Search among the columns that the relaxation uses."""
    known = model.encode(search.best)
    highs = [
        0.0 if value < _UNUSED and known[at] == 0 else high
        for at, (value, high) in enumerate(zip(relaxed.values, model.model.highs, strict=True))
    ]
    limits = replace(search.limits, time=search.limits.time * _SUPPORT_SHARE, gap=search.limits.gap / 2)
    outcome = solve(replace(model.stores_first(), highs=highs), limits, first=known)
    search.spend(outcome.time)
    if not isinstance(outcome, NoAnswer):
        found = route(search.lattice, search.targets, model.guide(outcome.values))
        improve(found, search.groups, rounds=2)
        search.offer(found)


def _solve_all(search: _Search, model: ProbeModel) -> None:
    """For large queries stores first; then, if paths came out fractional, everything."""
    for program in (model.stores_first(), model.model) if search.has_large else (model.model,):
        if search.done():
            break
        outcome = solve(program, search.limits, first=model.encode(search.best))
        search.spend(outcome.time)
        search.bound = max(search.bound, outcome.bound / model.scale)
        if not isinstance(outcome, NoAnswer):
            found = route(search.lattice, search.targets, model.guide(outcome.values, least=_TRUST))
            search.offer(route(search.lattice, search.targets, model.guide(outcome.values)))
            search.offer(found)


def independent_parts(
    lattice: Lattice, groups: Sequence[tuple[int, ...]]
) -> tuple[tuple[tuple[int, ...], ...], ...]:  # fmt: skip
    """Groups that have no edge and no copy in common with others, apart; those of small queries packed together."""
    owner: dict[tuple[str, int], int] = {}
    parent = list(range(len(groups)))

    def find(group: int) -> int:
        while parent[group] != group:
            parent[group] = group = parent[parent[group]]
        return group

    sizes = [0] * len(groups)
    for at, group in enumerate(groups):
        edges = {edge for each in reachable(lattice, group).values() for edge in each}
        copies = {copy for edge in edges for copy in lattice.serving(edge)}
        sizes[at] = len(edges)
        for key in (*(("edge", edge) for edge in edges), *(("copy", copy) for copy in copies)):
            parent[find(at)] = find(owner.setdefault(key, at))
    members: dict[int, list[int]] = {}
    for at in range(len(groups)):
        members.setdefault(find(at), []).append(at)
    parts: list[list[int]] = []
    small: list[int] = []
    for part in members.values():
        if any(len(groups[at]) >= _LARGE_QUERY for at in part):
            parts.append(part)
            continue
        small.extend(part)
        if sum(sizes[at] for at in small) >= _LEAST_EDGES:
            parts.append(small)
            small = []
    if small:
        parts.append(small)
    return tuple(tuple(groups[at] for at in sorted(part)) for part in sorted(parts, key=len))
