"""The chosen probe orders of all queries, as a value that can be checked, displayed and extended."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.errors import InternalError
from weft.plan.changelog import QueryId
from weft.planner.highs import gap_of
from weft.planner.joins.graph import JoinInput, JoinQuery
from weft.planner.joins.lattice import Lattice, LatticeNode
from weft.planner.joins.paths import Routing

_TOLERANCE = 1e-6


class Method(StrEnum):
    """The method by which probe orders are chosen."""

    AUTO = "auto"
    """One of the methods below, by the size of the lattice and the time limit."""
    ILP = "ilp"
    """The integer program: the cheapest plan, or a plan with a proven distance from the cheapest."""
    SUBPLANS = "subplans"
    """Iterative dynamic programming over shared subplans."""
    GREEDY = "greedy"
    """The cheapest paths for one query after the other."""
    INCREMENTAL = "incremental"
    """The previous plan, changed for the queries that were added or dropped."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One probe of a store that is partitioned by `attribute` ("" for a random placement).

    `broadcast` means that combinations are sent to all tasks of the store.
    """

    store: tuple[str, ...]
    attribute: str
    broadcast: bool
    cost: float


@dataclass(frozen=True, slots=True)
class ChosenOrder:
    """The stores that a new row of `start` visits for a query or for the upkeep of a stored join."""

    start: JoinInput
    steps: tuple[PlannedStep, ...]


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Paths through a lattice for all queries.

    `bound` is proven: no plan through this lattice costs less (for queries with more than seven relations the lattice
    does not have all sets). `paths` has a path for each target of a query and each upkeep node of a stored join that is
    probed; `edge_copy` has the copy that each used edge probes.
    """

    lattice: Lattice
    queries: dict[QueryId, JoinQuery]
    paths: dict[int, tuple[int, ...]]
    edge_copy: dict[int, int]
    bound: float
    method: Method

    @property
    def probe_cost(self) -> float:
        """Combinations sent to stores per second."""
        return math.fsum(self.lattice.edges[edge].cost for edge in self.edge_copy)

    @property
    def storage_cost(self) -> float:
        """The cost of all copies of stores."""
        return math.fsum(self.lattice.copies[copy].cost for copy in self.copies)

    @property
    def cost(self) -> float:
        """The minimized cost: probes and storage."""
        return math.fsum((self.probe_cost, self.storage_cost))

    @property
    def gap(self) -> float:
        """The largest fraction of the cost by which the best plan could be cheaper."""
        return gap_of(self.cost, self.bound)

    @property
    def copies(self) -> frozenset[int]:
        """The numbers of the copies that are probed."""
        return frozenset(self.edge_copy.values())

    @property
    def stored(self) -> float:
        """The number of rows and combinations in all copies."""
        stores = (self.lattice.stores[self.lattice.copies[copy].store] for copy in self.copies)
        return math.fsum(self.lattice.estimates.stored(store.inputs, store.predicates) for store in stores)

    @property
    def intermediates(self) -> tuple[tuple[str, ...], ...]:
        """The names of the relations of each stored join."""
        stores = (self.lattice.stores[self.lattice.copies[copy].store] for copy in self.copies)
        return tuple(sorted({self.lattice.graph.names(store.inputs) for store in stores if store.is_intermediate}))

    def targets(self) -> tuple[int, ...]:
        """Return the target nodes of all queries, in order."""
        return tuple(node for query in self.queries for node in self.lattice.targets[query])

    def orders(self, query: QueryId) -> tuple[ChosenOrder, ...]:
        """Return the query's probe orders, one per relation."""
        return tuple(self.order_to(node) for node in self.lattice.targets[query])

    def order_to(self, node: int) -> ChosenOrder:
        """Return the probe order of the path to a node."""
        start = self.lattice.graph.inputs[self.lattice.nodes[node].start]
        return ChosenOrder(start, tuple(self.step(edge) for edge in self.paths[node]))

    def step(self, edge: int) -> PlannedStep:
        """Return the probe that an edge stands for."""
        probe = self.lattice.edges[edge]
        attribute = self.lattice.copies[self.edge_copy[edge]].attribute
        return PlannedStep(
            self.lattice.graph.names(self.lattice.stores[probe.store].inputs),
            "" if attribute is None else attribute.text,
            not probe.copies and self.lattice.estimates.tasks(self.lattice.stores[probe.store].inputs) > 1,
            probe.cost,
        )


def plan_of(routing: Routing, queries: Iterable[JoinQuery], *, bound: float, method: Method) -> ProbePlan:
    """Return the routing as a plan, after checking that it answers all queries."""
    by_id = {query.id: query for query in queries}
    paths, edge_copy = _as_trees(routing, [node for query in by_id for node in routing.lattice.targets[query]])
    plan = ProbePlan(routing.lattice, by_id, paths, edge_copy, bound, method)
    if bound > plan.cost:  # the same sum, rounded differently
        plan = replace(plan, bound=min(bound, plan.cost * (1 + _TOLERANCE)))
    if problem := fault(plan):
        raise InternalError(f"the chosen probe orders are incomplete: {problem}")
    return plan


def _as_trees(routing: Routing, targets: list[int]) -> tuple[dict[int, tuple[int, ...]], dict[int, int]]:
    """Return paths and copies in which each node is reached in one way, so that no step is done twice."""
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
        path, current = list[int](), node
        while current in parents:
            path.append(parents[current])
            current = lattice.edges[parents[current]].source
            waiting.extend(lattice.upkeep[lattice.edges[path[-1]].store])
        paths[node] = tuple(reversed(path))
    used = {edge for path in paths.values() for edge in path}
    return paths, {edge: routing.edge_copy[edge] for edge in sorted(used)}


def fault(plan: ProbePlan) -> str:
    """Describe why the plan does not answer its queries, or return ""; the check does not depend on the method."""
    lattice = plan.lattice
    opened = {lattice.edges[edge].store for edge in plan.edge_copy}
    needed = [*plan.targets(), *(node for store in sorted(opened) for node in lattice.upkeep[store])]
    for node in needed:
        if node not in plan.paths:
            return f"no path to {lattice.nodes[node]}"
        start = lattice.nodes[node].start
        current = lattice.node_numbers[LatticeNode(start, 1 << start, 0)]
        for edge in plan.paths[node]:
            if lattice.edges[edge].source != current:
                return f"the path to {lattice.nodes[node]} is broken at {edge}"
            if plan.edge_copy.get(edge) not in lattice.serving(edge):
                return f"edge {edge} probes a copy that cannot serve it"
            current = lattice.edges[edge].target
        if current != node:
            return f"a path ends at {lattice.nodes[current]}, not at {lattice.nodes[node]}"
    if spare := set(plan.edge_copy) - {edge for node in needed for edge in plan.paths[node]}:
        return f"edges {sorted(spare)} are paid for and never used"
    if plan.bound > plan.cost * (1 + _TOLERANCE):
        return f"the cost {plan.cost} is below the bound {plan.bound}"
    return ""
