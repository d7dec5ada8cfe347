"""Plan the joins of many relations of all live queries: common form, probe orders, probe trees.

A planner is a pure function: which valid plan it returns changes costs, never results, so that tests can force any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from weft.optimize.forest import build_forest
from weft.optimize.highs import Limits
from weft.optimize.join_graph import JoinInput, JoinQuery
from weft.optimize.lattice import Lattice, build_lattice
from weft.optimize.plan_probes import add_queries, drop_queries, plan_probe_orders
from weft.optimize.probe_plan import Method, ProbePlan, plan_of
from weft.optimize.probed import ProbedQuery, join_input, to_probed
from weft.optimize.routing import Routing
from weft.optimize.statistics import CostModel, Statistics
from weft.plan.changelog import LiveQuery
from weft.plan.key import StoreId
from weft.plan.probes import NO_PROBES, Input, ProbeForest, inputs_of

Planner = Callable[[Sequence[JoinQuery], Statistics, ProbePlan | None], ProbePlan]
"""From queries, statistics and the plan before to probe orders for all of them."""

LIMITS = Limits(time=timedelta(seconds=1), gap=0.01)
"""A changelog waits for the plan: better a good one soon than the best one late."""
_MOST_CHANGED = 0.5
"""Share of the queries up to which a plan is changed instead of made anew (AJoin's rule)."""
_WORTH_CHANGING = 20
"""Queries from which on it is."""


def plan_probes(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """The cheapest probe orders found in a second; of many queries only what came or went is planned."""
    if before is not None and len(queries) >= _WORTH_CHANGING:
        now = {query.id: query for query in queries}
        gone = [each for each in before.queries if each not in now]
        new = [query for query in queries if query.id not in before.queries]
        if len(gone) + len(new) <= _MOST_CHANGED * len(queries):
            return add_queries(drop_queries(before, gone), new)
    return plan_probe_orders(queries, statistics, COSTS, limits=LIMITS)


COSTS = CostModel()


def choosing_planner(choose: Callable[[Sequence[int]], int], model: CostModel = COSTS) -> Planner:
    """A planner that asks `choose` for one of several numbers at every turn: whatever it says, the plan is valid."""

    def planner(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
        del before
        lattice = build_lattice(queries, statistics, model)
        targets = [node for query in queries for node in lattice.targets[query.id]]
        paths: dict[int, tuple[int, ...]] = {}
        waiting = list(targets)
        while waiting:
            node = waiting.pop()
            if node not in paths:
                paths[node] = _chosen_path(lattice, node, choose)
                waiting.extend(each for edge in paths[node] for each in lattice.upkeep[lattice.edges[edge].store])
        edges = sorted({edge for path in paths.values() for edge in path})
        routing = Routing(lattice)
        routing.resume(paths, {edge: choose(lattice.serving(edge)) for edge in edges}, targets)
        return plan_of(routing, queries, bound=0.0, method=Method.GREEDY)

    return planner


def _chosen_path(lattice: Lattice, node: int, choose: Callable[[Sequence[int]], int]) -> tuple[int, ...]:
    path: list[int] = []
    while lattice.incoming[node]:
        path.append(choose(lattice.incoming[node]))
        node = lattice.edges[path[-1]].source
    return tuple(reversed(path))


def weave_probes(
    queries: Iterable[LiveQuery],
    stores: Mapping[Input, StoreId],
    rates: Mapping[str, float],
    *,
    planner: Planner,
    before: ProbePlan | None,
) -> tuple[ProbeForest, ProbePlan | None]:
    """The probe trees of all queries that need them, and the plan behind; `rates` are rows per second by stream."""
    probed = [to_probed(live) for live in queries if live.query.is_probed]
    if not probed:
        return NO_PROBES, None
    plan = planner([each.join for each in probed], statistics_of(probed, rates), before)
    return build_forest(plan, probed, stores), plan


def statistics_of(queries: Iterable[ProbedQuery], rates: Mapping[str, float]) -> Statistics:
    """What is known of the inputs: how fast they come, and how long the query that reaches back furthest needs them."""
    kept: dict[JoinInput, timedelta | None] = {}
    for query in (each.live.query for each in queries):
        for number, each in enumerate(inputs_of(query)):
            reaches = [query.reach_back(number, other) for other in range(len(query.relations)) if other != number]
            at = join_input(each)
            if None in reaches or (at in kept and kept[at] is None):
                kept[at] = None
            else:
                longest = timedelta(microseconds=max(reach or 0 for reach in reaches))
                kept[at] = max(longest, kept.get(at) or longest)
    return Statistics(
        rates={each: rates[each.stream] for each in kept if each.stream in rates},
        kept={each: length for each, length in kept.items() if length is not None},
        unbounded=frozenset(each for each, length in kept.items() if length is None),
    )
