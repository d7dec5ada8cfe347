"""From queries and statistics to the probe orders of all of them: by which method, and incrementally.

All methods have one interface and one cost function, and all give a plan with a proven bound. `AUTO` takes the
integer program unless there is too little time or there are too many choices for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

from weft.errors import DuplicateQuery, InternalError, UnknownQuery
from weft.plan.changelog import QueryId
from weft.planner.highs import Limits
from weft.planner.joins.estimate import Estimates, estimate
from weft.planner.joins.graph import JoinGraph, JoinQuery, bits
from weft.planner.joins.join_tree import JoinTree
from weft.planner.joins.lattice import Lattice, Node, build_lattice, extend
from weft.planner.joins.one_query import greedy_order, probing_of
from weft.planner.joins.order_plan import Method, ProbePlan, plan_of
from weft.planner.joins.paths import Guide, Routing, improve, least_cost, route
from weft.planner.joins.program.solve import solve_paths
from weft.planner.joins.statistics import CostModel, Statistics
from weft.planner.joins.subplans import MayShare, share_all, subplan_trees

MOST_COMPLETE = 7
"""Relations in a query up to which all its sets are considered; of larger ones only those of its best trees."""
MOST_EDGES = 60_000
"""Edges up to which `AUTO` builds an integer program."""
LEAST_TIME = timedelta(milliseconds=20)
"""Time from which `AUTO` calls the solver."""
_ROUNDS = 3
_SMALL = 3
"""Relations of a query up to which the solver needs no help to start."""
_MOST_TOUCHED = 60
"""Paths chosen again after a query came or went."""


def plan_probe_orders(
    queries: Iterable[JoinQuery],
    statistics: Statistics,
    model: CostModel | None = None,
    *,
    limits: Limits | None = None,
    method: Method = Method.AUTO,
    may_share: MayShare = share_all,
) -> ProbePlan:
    """Probe orders, intermediate stores and partitionings for all queries, with the least cost the method finds."""
    queries, model, limits = tuple(queries), model or CostModel(), limits or Limits()
    if len({query.id for query in queries}) != len(queries):
        raise DuplicateQuery("two queries to be planned have the same id")
    lattice = _build(queries, statistics, model, may_share=may_share)
    groups = [lattice.targets[query.id] for query in queries]
    targets = [node for group in groups for node in group]
    match _chosen(method, lattice, limits):
        case Method.ILP:
            large = any(len(group) > _SMALL for group in groups)
            first = _route_subplans(lattice, queries, may_share) if large else None
            routed = solve_paths(lattice, groups, limits, first=first)
            return plan_of(routed.routing, queries, bound=routed.bound, method=Method.ILP)
        case Method.SUBPLANS:
            routing = _route_subplans(lattice, queries, may_share)
        case Method.GREEDY:
            routing = route(lattice, targets)
            improve(routing, groups, rounds=_ROUNDS)
        case Method.AUTO | Method.INCREMENTAL:
            raise InternalError("no method was chosen")
        case other_method:
            assert_never(other_method)
    return plan_of(routing, queries, bound=least_cost(lattice, targets), method=_chosen(method, lattice, limits))


def plan_alone(query: JoinQuery, statistics: Statistics, model: CostModel | None = None) -> ProbePlan:
    """The best plan of a query that shares with nobody."""
    return plan_probe_orders([query], statistics, model)


def add_queries(plan: ProbePlan, queries: Iterable[JoinQuery]) -> ProbePlan:
    """The plan with more queries, each on the cheapest paths beside what runs; then what they touch is chosen again.

    The bound stays proven: whatever serves more queries also serves the old ones, and each new query needs a last
    step of its own to every result that no old one could have needed.
    """
    queries = tuple(queries)
    if known := [query.id for query in queries if query.id in plan.queries]:
        raise DuplicateQuery(f'query "{known[0]}" is in the plan already')
    statistics, model = plan.lattice.estimates.statistics, plan.lattice.estimates.model
    lattice = _build(queries, statistics, model, base=plan.lattice)
    routing = _resumed(plan, lattice)
    before = routing.edges()
    bound = plan.bound
    for query in queries:
        fresh = [node for node in lattice.targets[query.id] if node >= len(plan.lattice.nodes)]
        bound += sum(min((lattice.edges[edge].cost for edge in lattice.incoming[node]), default=0.0) for node in fresh)
        for node in lattice.targets[query.id]:
            routing.demand(node)
    for query in queries:
        routing.reroute(lattice.targets[query.id])
    _settle(routing, routing.edges() - before)
    everyone = (*plan.queries.values(), *queries)
    return plan_of(routing, everyone, bound=bound, method=Method.INCREMENTAL)


def drop_queries(plan: ProbePlan, ids: Iterable[QueryId]) -> ProbePlan:
    """The plan without some queries, and without every edge and store that served only them.

    The bound stays proven: the best plan without them, and beside it each of them alone, would be a plan for all.
    """
    ids = tuple(ids)
    if unknown := [each for each in ids if each not in plan.queries]:
        raise UnknownQuery(f'query "{unknown[0]}" is not in the plan')
    targets = {query: nodes for query, nodes in plan.lattice.targets.items() if query not in ids}
    lattice = replace(plan.lattice, targets=targets)
    routing = _resumed(plan, lattice)
    before = routing.edges()
    bound = plan.bound
    for each in ids:
        bound -= route(lattice, plan.lattice.targets[each]).cost()
        for node in plan.lattice.targets[each]:
            routing.release(node)
    _settle(routing, before - routing.edges())
    left = [query for query in plan.queries.values() if query.id not in ids]
    return plan_of(routing, left, bound=max(0.0, bound), method=Method.INCREMENTAL)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What a change would do to the cost of everything."""

    before: float
    after: float
    plan: ProbePlan

    @property
    def change(self) -> float:
        """Positive where it gets more expensive."""
        return self.after - self.before


def what_if(plan: ProbePlan, *, add: Sequence[JoinQuery] = (), drop: Sequence[QueryId] = ()) -> WhatIf:
    """The cost of adding and dropping queries, without doing it."""
    changed = drop_queries(plan, drop) if drop else plan
    if add:
        changed = add_queries(changed, add)
    return WhatIf(plan.cost, changed.cost, changed)


def _build(
    queries: Sequence[JoinQuery],
    statistics: Statistics,
    model: CostModel,
    *,
    base: Lattice | None = None,
    may_share: MayShare = share_all,
) -> Lattice:
    """A lattice, or a larger one; of large queries with the sets of their trees and greedy probe orders only."""
    families: dict[QueryId, set[int]] = {}
    if large := [query for query in queries if len(query.inputs) > MOST_COMPLETE]:
        graph = base.graph if base else JoinGraph()
        estimates = estimate(graph.extended(queries), statistics, model)
        trees = subplan_trees(queries, estimates, may_share=may_share).trees
        families = {query.id: _family(query, estimates, trees[query.id]) for query in large}
    if base:
        return extend(base, queries, families=families)
    return build_lattice(queries, statistics, model, families=families)


def _chosen(method: Method, lattice: Lattice, limits: Limits) -> Method:
    if method is not Method.AUTO:
        return method
    if limits.time < LEAST_TIME:
        return Method.GREEDY
    return Method.ILP if len(lattice.edges) <= MOST_EDGES else Method.SUBPLANS


def _resumed(plan: ProbePlan, lattice: Lattice) -> Routing:
    routing = Routing(lattice)
    routing.resume(plan.paths, plan.edge_copy, plan.targets())
    return routing


def _settle(routing: Routing, changed: frozenset[int]) -> None:
    """Choose those paths again that could use the changed edges, as far as that stays quick."""
    lattice = routing.lattice
    touched: dict[int, None] = {}
    changes = [lattice.nodes[lattice.edges[edge].target] for edge in sorted(changed)]
    for node in sorted(routing.paths):
        each = lattice.nodes[node]
        if any(
            each.start == change.start
            and change.inputs & each.inputs == change.inputs
            and change.predicates & each.predicates == change.predicates
            for change in changes
        ):
            touched[node] = None
    for node in list(touched)[:_MOST_TOUCHED]:
        routing.reroute((node,))


def _family(query: JoinQuery, estimates: Estimates, tree: JoinTree) -> set[int]:
    """The sets considered for a query too large for all of them: those of its tree and of its greedy probe orders."""
    sets = {each.inputs for each in _subtrees(tree)}
    probing = probing_of(query, estimates)
    for start in bits(probing.inputs):
        joined = 0
        for number in greedy_order(probing, start):
            sets.add(1 << number)
            joined |= 1 << number
            sets.add(joined)
    return sets


def _subtrees(tree: JoinTree) -> list[JoinTree]:
    return [tree, *(below for child in tree.children for below in _subtrees(child))]


def _route_subplans(lattice: Lattice, queries: Sequence[JoinQuery], may_share: MayShare) -> Routing:
    """Paths along the trees of shared subplans: a tuple meets the store of the other child at every join."""
    edges = [each.cost for each in lattice.edges]
    copies = [each.cost for each in lattice.copies]
    trees = subplan_trees(queries, lattice.estimates, may_share=may_share).trees
    for query in queries:
        _, predicates = lattice.graph.encode(query)
        joins = [tree for tree in _subtrees(trees[query.id]) if tree.children]
        cuts = {(tree.inputs, child.inputs) for tree in joins for child in tree.children}
        for tree in joins:
            within = lattice.graph.within(tree.inputs, predicates)
            for start in bits(tree.inputs):
                _lead(lattice, lattice.node_numbers[Node(start, tree.inputs, within)], cuts, (edges, copies))
    groups = [lattice.targets[query.id] for query in queries]
    routing = route(lattice, [node for group in groups for node in group], Guide(edges, copies))
    improve(routing, groups, rounds=_ROUNDS)
    return routing


def _lead(lattice: Lattice, node: int, cuts: set[tuple[int, int]], costs: tuple[list[float], list[float]]) -> None:
    """Take the cost from the cheapest edge to a node of a tree that probes the store of a child."""
    inputs = lattice.nodes[node].inputs
    options = [
        edge for edge in lattice.incoming[node] if (inputs, lattice.stores[lattice.edges[edge].store].inputs) in cuts
    ]
    if options:
        chosen = min(options, key=lambda edge: (lattice.edges[edge].cost, edge))
        costs[0][chosen] = 0.0
        costs[1][min(lattice.serving(chosen))] = 0.0
