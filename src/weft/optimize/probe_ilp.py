"""Probe orders of all queries by integer programming: a known answer, the relaxation, then the solver.

The relaxation is nearly whole-numbered where queries share much, so paths that follow it are nearly the cheapest;
often that closes the gap and the solver need not search at all. Where it does not, the solver first searches among
what the relaxation uses. Of large queries that share little the relaxation alone is some percent off: then it is told
what each costs at least alone. Only then everything is searched, stores before paths. Whatever the time, there is an
answer with a proven bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from weft.optimize.highs import Limits, NoAnswer, Relaxation, gap_of, relax, solve
from weft.optimize.lattice import Lattice
from weft.optimize.probe_floor import Shape, shape_of
from weft.optimize.probe_model import ProbeModel, build_model, reachable
from weft.optimize.routing import Routing, improve, least_cost, route

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
_FLOOR_SHARE = 0.5
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
    known: dict[Shape, float]
    """Costs alone of the shapes of queries met so far, or lower bounds of them."""
    bound: float = 0.0

    @property
    def targets(self) -> tuple[int, ...]:
        return tuple(node for group in self.groups for node in group)

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
    whole = Routing(lattice)
    bound = 0.0
    paths: dict[int, tuple[int, ...]] = {}
    copies: dict[int, int] = {}
    known: dict[Shape, float] = {}
    parts = independent_parts(lattice, groups)
    for at, part in enumerate(parts):
        share = limits.time * len(part) / sum(map(len, parts[at:]))  # what is not used goes to the larger ones after it
        targets = [node for group in part for node in group]
        search = _Search(lattice, part, replace(limits, time=share), route(lattice, targets), known)
        if first is not None:
            search.offer(_restricted(first, targets))
        _solve_part(search)
        limits = replace(limits, time=max(timedelta(0), limits.time - share + search.limits.time))
        paths |= search.best.paths
        copies |= search.best.edge_copy
        bound += min(search.bound, search.best.cost())
    whole.resume(paths, copies, [node for group in groups for node in group])
    return Routed(whole, bound)


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


def _solve_part(search: _Search) -> None:
    """Cheap steps first; each ends the search if the gap is small enough."""
    model = build_model(search.lattice, search.targets, most=search.best.cost(), floors=_floors(search))
    has_answer = _relax(search, model)
    if has_answer and not search.done() and _should_learn(search):
        _learn_floors(search)
        model = build_model(search.lattice, search.targets, most=search.best.cost(), floors=_floors(search))
        has_answer = _relax(search, model)
    if has_answer and not search.done():
        _solve_all(search, model)


def _should_learn(search: _Search) -> bool:
    """Whether costs alone are worth finding: of several large queries that share so little that the gap is wide."""
    large = any(len(group) >= _LARGE_QUERY for group in search.groups)
    return large and len(search.groups) > 1 and search.gap() > _WIDE * max(search.limits.gap, _SMALL_GAP)


def _relax(search: _Search, model: ProbeModel) -> bool:
    """Bound the cost by the relaxation and follow it, for several large queries by a search among what it uses.

    Without an answer the best is made of what there is.
    """
    relaxed = relax(model.model, search.limits)
    search.spend(relaxed.time)
    if isinstance(relaxed, NoAnswer):
        search.bound = max(search.bound, least_cost(search.lattice, search.targets))
        improve(search.best, search.groups, rounds=3)
        return False
    search.bound = max(search.bound, relaxed.cost / model.scale)
    search.offer(route(search.lattice, search.targets, model.guide(relaxed.values, least=_TRUST)))
    if not search.done() and any(len(group) >= _LARGE_QUERY for group in search.groups):
        improve(search.best, search.groups, rounds=3)
        if len(search.groups) > 1 and not search.done():
            _solve_support(search, model, relaxed)
    return True


def _floors(search: _Search) -> list[tuple[tuple[int, ...], float]]:
    shapes = [(group, _shape(search.lattice, group)) for group in search.groups]
    return [(group, search.known[shape]) for group, shape in shapes if shape in search.known]


def _learn_floors(search: _Search) -> None:
    """Work out what queries of shapes not met before cost alone."""
    wanted = {_shape(search.lattice, group): group for group in search.groups if len(group) >= _LARGE_QUERY}
    new = {shape: group for shape, group in wanted.items() if shape not in search.known}
    budget = search.limits.time * _FLOOR_SHARE
    for shape, group in new.items():
        limits = replace(search.limits, time=budget / len(new), gap=search.limits.gap / 2)
        alone = _Search(search.lattice, (group,), limits, route(search.lattice, group), search.known)
        _solve_part(alone)
        search.spend(limits.time - alone.limits.time)
        search.known[shape] = alone.bound


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
    large = any(len(group) >= _LARGE_QUERY for group in search.groups)
    for program in (model.stores_first(), model.model) if large else (model.model,):
        if search.done():
            break
        outcome = solve(program, search.limits, first=model.encode(search.best))
        search.spend(outcome.time)
        search.bound = max(search.bound, outcome.bound / model.scale)
        if not isinstance(outcome, NoAnswer):
            found = route(search.lattice, search.targets, model.guide(outcome.values, least=_TRUST))
            search.offer(route(search.lattice, search.targets, model.guide(outcome.values)))
            search.offer(found)
    if len(search.groups) == 1:
        shape = _shape(search.lattice, search.groups[0])
        search.known[shape] = max(search.bound, search.known.get(shape, 0.0))


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
