"""The choice of probe orders for all queries, by one of several methods or incrementally.

All methods have the same interface and cost function and return a plan with a proven bound. `AUTO` uses the integer
program unless there is too little time for it or the lattice has too many edges.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import assert_never

from weft.errors import DuplicateQuery, InternalError, UnknownQuery
from weft.plan.changelog import QueryId
from weft.planner.highs import SolverLimits
from weft.planner.joins.estimate import Estimates, estimate
from weft.planner.joins.graph import JoinGraph, JoinQuery, bits
from weft.planner.joins.join_tree import JoinTree
from weft.planner.joins.lattice import Lattice, LatticeNode, build_lattice, extend
from weft.planner.joins.one_query import greedy_order, probing_of
from weft.planner.joins.order_plan import Method, ProbePlan, plan_of
from weft.planner.joins.paths import Guide, Routing, improve_paths, least_cost, route
from weft.planner.joins.program.solve import solve_paths
from weft.planner.joins.statistics import CostModel, Statistics
from weft.planner.joins.subplans import MayShare, share_all, subplan_trees

MOST_COMPLETE = 7
"""The largest number of relations in a query whose connected sets are all considered; `_family` limits the others."""
MOST_EDGES = 60_000
"""The largest number of edges for which `AUTO` builds an integer program."""
LEAST_TIME = timedelta(milliseconds=20)
"""The shortest time limit for which `AUTO` calls the solver."""
_ROUNDS = 3
_SMALL = 3
"""If no query has more relations than this, the solver starts without a solution from shared subplans."""
_MOST_TOUCHED = 60
"""The largest number of paths that are chosen again after queries are added or dropped."""


def plan_probe_orders(
    queries: Iterable[JoinQuery],
    statistics: Statistics,
    model: CostModel | None = None,
    *,
    limits: SolverLimits | None = None,
    method: Method = Method.AUTO,
    may_share: MayShare = share_all,
) -> ProbePlan:
    """Return the cheapest probe orders, stored joins and partitionings that the method finds for all queries."""
    queries, model, limits = tuple(queries), model or CostModel(), limits or SolverLimits()
    if len({query.id for query in queries}) != len(queries):
        raise DuplicateQuery("two queries to be planned have the same id")
    lattice = _build(queries, statistics, model, may_share=may_share)
    groups = [lattice.targets[query.id] for query in queries]
    targets = [node for group in groups for node in group]
    match _chosen(method, lattice, limits):
        case Method.ILP:
            any_large = any(len(group) > _SMALL for group in groups)
            incumbent = _route_subplans(lattice, queries, may_share) if any_large else None
            solution = solve_paths(lattice, groups, limits, first=incumbent)
            return plan_of(solution.routing, queries, bound=solution.bound, method=Method.ILP)
        case Method.SUBPLANS:
            routing = _route_subplans(lattice, queries, may_share)
        case Method.GREEDY:
            routing = route(lattice, targets)
            improve_paths(routing, groups, rounds=_ROUNDS)
        case Method.AUTO | Method.INCREMENTAL:
            raise InternalError("no method was chosen")
        case other_method:
            assert_never(other_method)
    return plan_of(routing, queries, bound=least_cost(lattice, targets), method=_chosen(method, lattice, limits))


def plan_alone(query: JoinQuery, statistics: Statistics, model: CostModel | None = None) -> ProbePlan:
    """Return the best plan of a single query."""
    return plan_probe_orders([query], statistics, model)


def add_queries(plan: ProbePlan, queries: Iterable[JoinQuery]) -> ProbePlan:
    """Return the plan with more queries on the paths of least marginal cost, after rerouting paths that are affected.

    The bound stays proven: a plan for more queries also serves the old ones, and each new query needs a last edge to
    each of its targets that is not in the old lattice.
    """
    queries = tuple(queries)
    if duplicates := [query.id for query in queries if query.id in plan.queries]:
        raise DuplicateQuery(f'query "{duplicates[0]}" is in the plan already')
    statistics, model = plan.lattice.estimates.statistics, plan.lattice.estimates.model
    lattice = _build(queries, statistics, model, base=plan.lattice)
    routing = _resumed(plan, lattice)
    before = routing.edges()
    bound = plan.bound
    # Queries with the same join have the same targets, and a plan pays for the last edge to each target once.
    targets = dict.fromkeys(node for query in queries for node in lattice.targets[query.id])
    for node in (node for node in targets if node >= len(plan.lattice.nodes)):
        bound += min((lattice.edges[edge].cost for edge in lattice.incoming[node]), default=0.0)
    for query in queries:
        for node in lattice.targets[query.id]:
            routing.demand(node)
    for query in queries:
        routing.reroute(lattice.targets[query.id])
    _settle(routing, routing.edges() - before)
    all_queries = (*plan.queries.values(), *queries)
    return plan_of(routing, all_queries, bound=bound, method=Method.INCREMENTAL)


def drop_queries(plan: ProbePlan, ids: Iterable[QueryId]) -> ProbePlan:
    """Return the plan without these queries, and without the edges and stores that served only them.

    The bound stays proven: the best plan of the remaining queries, together with a separate plan for each removed one,
    is a plan for all queries.
    """
    ids = tuple(ids)
    if unknown := [query_id for query_id in ids if query_id not in plan.queries]:
        raise UnknownQuery(f'query "{unknown[0]}" is not in the plan')
    targets = {query_id: nodes for query_id, nodes in plan.lattice.targets.items() if query_id not in ids}
    lattice = replace(plan.lattice, targets=targets)
    routing = _resumed(plan, lattice)
    before = routing.edges()
    bound = plan.bound
    for query_id in ids:
        bound -= route(lattice, plan.lattice.targets[query_id]).cost()
        for node in plan.lattice.targets[query_id]:
            routing.release(node)
    _settle(routing, before - routing.edges())
    remaining = [query for query in plan.queries.values() if query.id not in ids]
    return plan_of(routing, remaining, bound=max(0.0, bound), method=Method.INCREMENTAL)


def _build(
    queries: Sequence[JoinQuery],
    statistics: Statistics,
    model: CostModel,
    *,
    base: Lattice | None = None,
    may_share: MayShare = share_all,
) -> Lattice:
    """Return the lattice of the queries, or `base` extended by them; large queries have only the sets of `_family`."""
    families: dict[QueryId, set[int]] = {}
    if large := [query for query in queries if len(query.inputs) > MOST_COMPLETE]:
        graph = base.graph if base else JoinGraph()
        estimates = estimate(graph.extended(queries), statistics, model)
        trees = subplan_trees(queries, estimates, may_share=may_share).trees
        families = {query.id: _family(query, estimates, trees[query.id]) for query in large}
    if base:
        return extend(base, queries, families=families)
    return build_lattice(queries, statistics, model, families=families)


def _chosen(method: Method, lattice: Lattice, limits: SolverLimits) -> Method:
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
    """Choose again the paths that could use the changed edges, at most `_MOST_TOUCHED` of them."""
    lattice = routing.lattice
    touched: dict[int, None] = {}
    changes = [lattice.nodes[lattice.edges[edge].target] for edge in sorted(changed)]
    for number in sorted(routing.paths):
        node = lattice.nodes[number]
        if any(
            node.start == change.start
            and change.inputs & node.inputs == change.inputs
            and change.predicates & node.predicates == change.predicates
            for change in changes
        ):
            touched[number] = None
    for number in list(touched)[:_MOST_TOUCHED]:
        routing.reroute((number,))


def _family(query: JoinQuery, estimates: Estimates, tree: JoinTree) -> set[int]:
    """Return the sets to consider for a large query: those of its tree and of its greedy probe orders."""
    sets = {subtree.inputs for subtree in _subtrees(tree)}
    probing = probing_of(query, estimates)
    for start in bits(probing.inputs):
        joined = 0
        for number in greedy_order(probing, start):
            sets.add(1 << number)
            joined |= 1 << number
            sets.add(joined)
    return sets


def _subtrees(tree: JoinTree) -> list[JoinTree]:
    return [tree, *(subtree for child in tree.children for subtree in _subtrees(child))]


def _route_subplans(lattice: Lattice, queries: Sequence[JoinQuery], may_share: MayShare) -> Routing:
    """Return paths along the trees of shared subplans: at every join, rows of one child probe the other's store."""
    edges = [edge.cost for edge in lattice.edges]
    copies = [copy.cost for copy in lattice.copies]
    trees = subplan_trees(queries, lattice.estimates, may_share=may_share).trees
    for query in queries:
        _, predicates = lattice.graph.encode(query)
        joins = [tree for tree in _subtrees(trees[query.id]) if tree.children]
        cuts = {(tree.inputs, child.inputs) for tree in joins for child in tree.children}
        for tree in joins:
            within = lattice.graph.within(tree.inputs, predicates)
            for start in bits(tree.inputs):
                _lead(lattice, lattice.node_numbers[LatticeNode(start, tree.inputs, within)], cuts, (edges, copies))
    groups = [lattice.targets[query.id] for query in queries]
    routing = route(lattice, [node for group in groups for node in group], Guide(edges, copies))
    improve_paths(routing, groups, rounds=_ROUNDS)
    return routing


def _lead(lattice: Lattice, node: int, cuts: set[tuple[int, int]], costs: tuple[list[float], list[float]]) -> None:
    """Set to 0 the cost of the cheapest edge that leads to a tree node by a probe of a child's store."""
    inputs = lattice.nodes[node].inputs
    options = [
        edge for edge in lattice.incoming[node] if (inputs, lattice.stores[lattice.edges[edge].store].inputs) in cuts
    ]
    if options:
        chosen = min(options, key=lambda edge: (lattice.edges[edge].cost, edge))
        costs[0][chosen] = 0.0
        costs[1][min(lattice.serving(chosen))] = 0.0
