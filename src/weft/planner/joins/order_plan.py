"""Chosen probe orders of all queries: a value that can be checked, shown and built upon."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.errors import InternalError
from weft.plan.changelog import QueryId
from weft.planner.highs import gap_of
from weft.planner.joins.graph import JoinInput, JoinQuery
from weft.planner.joins.lattice import Lattice, Node
from weft.planner.joins.paths import Routing

_TOLERANCE = 1e-6


class Method(StrEnum):
    """How probe orders are chosen."""

    AUTO = "auto"
    """By the number of choices and the time there is."""
    ILP = "ilp"
    """The integer program: the cheapest, with a proof of how far from it the answer can be."""
    SUBPLANS = "subplans"
    """Iterative dynamic programming over shared subplans."""
    GREEDY = "greedy"
    """The cheapest path for one query after the other."""
    INCREMENTAL = "incremental"
    """From the plan before, changed where queries came or went."""


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """One probe: of which store, by which attribute it is partitioned, and what the step costs.

    `attribute` is "" where rows are placed at random. `broadcast` says that partial results go to all tasks.
    """

    store: tuple[str, ...]
    attribute: str
    broadcast: bool
    cost: float


@dataclass(frozen=True, slots=True)
class ChosenOrder:
    """The stores that a tuple of `start` visits for a query (or for the upkeep of a stored join)."""

    start: JoinInput
    steps: tuple[ProbeStep, ...]


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Paths through a lattice for everything the queries need.

    `bound` is proven: no plan through this lattice costs less; of queries with more than seven relations the lattice
    does not have all sets. `paths` has a path for each target of a query and each upkeep node of an intermediate
    store that is probed; `edge_copy` names the copy of a store each used edge probes.
    """

    lattice: Lattice
    queries: dict[QueryId, JoinQuery]
    paths: dict[int, tuple[int, ...]]
    edge_copy: dict[int, int]
    bound: float
    method: Method

    @property
    def probe_cost(self) -> float:
        """Tuples sent to stores per second."""
        return math.fsum(self.lattice.edges[edge].cost for edge in self.edge_copy)

    @property
    def storage_cost(self) -> float:
        """The price of all copies of stores."""
        return math.fsum(self.lattice.copies[copy].cost for copy in self.copies)

    @property
    def cost(self) -> float:
        """What was minimized."""
        return math.fsum((self.probe_cost, self.storage_cost))

    @property
    def gap(self) -> float:
        """By which fraction of the cost the best plan could be cheaper, at most."""
        return gap_of(self.cost, self.bound)

    @property
    def copies(self) -> frozenset[int]:
        """Numbers of the copies that are probed."""
        return frozenset(self.edge_copy.values())

    @property
    def stored(self) -> float:
        """Tuples in all copies."""
        stores = (self.lattice.stores[self.lattice.copies[copy].store] for copy in self.copies)
        return math.fsum(self.lattice.estimates.stored(each.inputs, each.predicates) for each in stores)

    @property
    def intermediates(self) -> tuple[tuple[str, ...], ...]:
        """The joins that are stored, by their relations' names."""
        stores = (self.lattice.stores[self.lattice.copies[copy].store] for copy in self.copies)
        return tuple(sorted({self.lattice.graph.names(each.inputs) for each in stores if each.is_intermediate}))

    def targets(self) -> tuple[int, ...]:
        """The nodes all queries need, in order."""
        return tuple(node for query in self.queries for node in self.lattice.targets[query])

    def orders(self, query: QueryId) -> tuple[ChosenOrder, ...]:
        """The query's probe orders, one per relation."""
        return tuple(self.order_to(node) for node in self.lattice.targets[query])

    def order_to(self, node: int) -> ChosenOrder:
        """The probe order behind one path."""
        start = self.lattice.graph.inputs[self.lattice.nodes[node].start]
        return ChosenOrder(start, tuple(self.step(edge) for edge in self.paths[node]))

    def step(self, edge: int) -> ProbeStep:
        """One edge in words."""
        each = self.lattice.edges[edge]
        attribute = self.lattice.copies[self.edge_copy[edge]].attribute
        return ProbeStep(
            self.lattice.graph.names(self.lattice.stores[each.store].inputs),
            "" if attribute is None else attribute.text,
            not each.copies and self.lattice.estimates.tasks(self.lattice.stores[each.store].inputs) > 1,
            each.cost,
        )


def plan_of(routing: Routing, queries: Iterable[JoinQuery], *, bound: float, method: Method) -> ProbePlan:
    """The routing as a value, after it was checked that it answers all of the queries."""
    by_id = {query.id: query for query in queries}
    paths, edge_copy = _as_trees(routing, [node for query in by_id for node in routing.lattice.targets[query]])
    plan = ProbePlan(routing.lattice, by_id, paths, edge_copy, bound, method)
    if bound > plan.cost:  # both are the same sum, rounded differently
        plan = replace(plan, bound=min(bound, plan.cost * (1 + _TOLERANCE)))
    if wrong := fault(plan):
        raise InternalError(f"the chosen probe orders are incomplete: {wrong}")
    return plan


def _as_trees(routing: Routing, targets: list[int]) -> tuple[dict[int, tuple[int, ...]], dict[int, int]]:
    """The same paths, but no node reached in two ways: a step is never done twice for the same partial results."""
    lattice = routing.lattice
    parents: dict[int, int] = {}
    for node in sorted(routing.paths):
        for edge in routing.paths[node]:
            parents.setdefault(lattice.edges[edge].target, edge)
    paths: dict[int, tuple[int, ...]] = {}
    waiting = list(reversed(targets))
    while waiting:
        node = waiting.pop()
        if node in paths:
            continue
        path, at = list[int](), node
        while at in parents:
            path.append(parents[at])
            at = lattice.edges[parents[at]].source
            waiting.extend(lattice.upkeep[lattice.edges[path[-1]].store])
        paths[node] = tuple(reversed(path))
    used = {edge for path in paths.values() for edge in path}
    return paths, {edge: routing.edge_copy[edge] for edge in sorted(used)}


def fault(plan: ProbePlan) -> str:
    """What keeps the plan from answering its queries, or nothing; independent of how it was found."""
    lattice = plan.lattice
    opened = {lattice.edges[edge].store for edge in plan.edge_copy}
    needed = [*plan.targets(), *(node for store in sorted(opened) for node in lattice.upkeep[store])]
    for node in needed:
        if node not in plan.paths:
            return f"no path to {lattice.nodes[node]}"
        start = lattice.nodes[node].start
        at = lattice.node_numbers[Node(start, 1 << start, 0)]
        for edge in plan.paths[node]:
            if lattice.edges[edge].source != at:
                return f"the path to {lattice.nodes[node]} is broken at {edge}"
            if plan.edge_copy.get(edge) not in lattice.serving(edge):
                return f"edge {edge} probes a copy that cannot serve it"
            at = lattice.edges[edge].target
        if at != node:
            return f"a path ends at {lattice.nodes[at]}, not at {lattice.nodes[node]}"
    if spare := set(plan.edge_copy) - {edge for node in needed for edge in plan.paths[node]}:
        return f"edges {sorted(spare)} are paid for and never used"
    if plan.bound > plan.cost * (1 + _TOLERANCE):
        return f"the cost {plan.cost} is below the bound {plan.bound}"
    return ""
