"""Planners, which choose the probe orders of all live queries, and the statistics that they are given.

A planner is a pure function. Its choice among valid plans changes costs but never results, so tests can force any plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from weft.plan.key import StoreId, key_text
from weft.plan.probe_tree import Equality, Input, inputs_of
from weft.planner.highs import SolverLimits
from weft.planner.joins.graph import Attribute, JoinInput, JoinQuery
from weft.planner.joins.lattice import Lattice, build_lattice
from weft.planner.joins.normal_form import ProbedQuery, join_input
from weft.planner.joins.order_plan import Method, ProbePlan, plan_of
from weft.planner.joins.orders import add_queries, drop_queries, plan_probe_orders
from weft.planner.joins.paths import Routing
from weft.planner.joins.program.solve import solve_paths
from weft.planner.joins.statistics import CostModel, Statistics, distinct_keys

Planner = Callable[[Sequence[JoinQuery], Statistics, ProbePlan | None], ProbePlan]
"""A function from queries, statistics and the previous plan to the probe orders of all queries."""

LIMITS = SolverLimits(time=timedelta(seconds=1), gap=0.01)
"""Limits of the solver. They are tight because a changelog waits for the plan."""
_MOST_CHANGED = 0.5
"""If more than this share of the queries is added or dropped, a new plan is made (AJoin's rule)."""
_MANY = 100
"""From this many queries on, the previous plan is changed if possible, because a changelog waits for the plan."""


def plan_probes(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """Return the cheapest probe orders found in a second; with many queries, plan only those added or dropped."""
    if before is not None and len(queries) >= _MANY:
        changed = _changed(before, queries)
        if changed is not None:
            return changed
    return plan_probe_orders(queries, statistics, COSTS, limits=LIMITS)


def _changed(before: ProbePlan, queries: Sequence[JoinQuery]) -> ProbePlan | None:
    """Return the previous plan, changed for the given queries; None if too many were added or dropped."""
    current = {query.id: query for query in queries}
    dropped = [query_id for query_id in before.queries if query_id not in current]
    added = [query for query in queries if query.id not in before.queries]
    if len(dropped) + len(added) > _MOST_CHANGED * len(queries):
        return None
    return add_queries(drop_queries(before, dropped), added)


COSTS = CostModel(storage_price=0.2, input_price=0.0, sliding=True)
"""The cost model of the engine. Inputs cost nothing because every plan stores them with all their indexes. Storing a
combination for a window of five seconds costs as much as sending it once more."""


def choosing_planner(choose: Callable[[Sequence[int]], int], model: CostModel = COSTS) -> Planner:
    """Return a planner that calls `choose` to pick every edge and every copy; any choice gives a valid plan."""

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
                waiting.extend(upkeep for edge in paths[node] for upkeep in lattice.upkeep[lattice.edges[edge].store])
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


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements: rows per second by stream, and the rows and distinct keys of a bucket by index."""

    rates: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def statistics_of(queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId], measured: Measured) -> Statistics:
    """Return the rates and distinct keys of the inputs, and the longest time for which a query needs their rows."""
    kept: dict[JoinInput, timedelta | None] = {}
    for query in (probed.live.query for probed in queries):
        for number, input_ in enumerate(inputs_of(query)):
            reaches = [query.reach_back(number, other) for other in range(len(query.relations)) if other != number]
            relation = join_input(input_)
            if None in reaches or (relation in kept and kept[relation] is None):
                kept[relation] = None
            else:
                longest = timedelta(microseconds=max(reach or 0 for reach in reaches))
                kept[relation] = max(longest, kept.get(relation) or longest)
    return Statistics(
        rates={input_: _rounded(measured.rates[input_.stream]) for input_ in kept if input_.stream in measured.rates},
        distinct_keys={attribute: _rounded(keys) for attribute, keys in _distinct_keys(queries, stores, measured)},
        kept=kept,
    )


def _rounded(figure: float) -> float:
    """Round to a power of two, so that noise does not change the plan (a new plan rebuilds stored joins)."""
    return 2.0 ** round(math.log2(figure)) if figure > 0 else figure


def _distinct_keys(
    queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId], measured: Measured
) -> Iterator[tuple[Attribute, float]]:
    for condition in (condition for query in queries for condition in query.conditions.values()):
        if isinstance(condition, Equality):
            for side, index in (
                (condition.left, condition.left_index),
                (condition.right, condition.right_index),
            ):
                counts = measured.keys.get(f"{stores[side]}/{index.id}")
                if counts is not None:
                    yield Attribute(join_input(side), key_text(index.key)), distinct_keys(*counts)


def plan_each_alone(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """Plan each query on its own; equal steps of different queries are still shared.

    It is the baseline for planning all queries together.
    """
    del before
    lattice = build_lattice(queries, statistics, COSTS)
    paths: dict[int, tuple[int, ...]] = {}
    copies: dict[int, int] = {}
    for query in queries:
        alone = solve_paths(lattice, [lattice.targets[query.id]], LIMITS).routing
        paths = alone.paths | paths
        copies = alone.edge_copy | copies
    used = {edge for path in paths.values() for edge in path}
    routing = Routing(lattice)
    targets = [node for query in queries for node in lattice.targets[query.id]]
    routing.resume(paths, {edge: copy for edge, copy in copies.items() if edge in used}, targets)
    return plan_of(routing, queries, bound=0.0, method=Method.GREEDY)
