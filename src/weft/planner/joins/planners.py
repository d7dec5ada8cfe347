"""Plan the joins of many relations of all live queries: common form, probe orders, probe trees.

A planner is a pure function: which valid plan it returns changes costs, never results, so that tests can force any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from weft.plan.key import StoreId, key_text
from weft.plan.probe_tree import Equality, Input, inputs_of
from weft.planner.highs import Limits
from weft.planner.joins.graph import Attribute, JoinInput, JoinQuery
from weft.planner.joins.lattice import Lattice, build_lattice
from weft.planner.joins.normal_form import ProbedQuery, join_input
from weft.planner.joins.order_plan import Method, ProbePlan, plan_of
from weft.planner.joins.orders import add_queries, drop_queries, plan_probe_orders
from weft.planner.joins.paths import Routing
from weft.planner.joins.program.solve import solve_paths
from weft.planner.joins.statistics import CostModel, Statistics, distinct_keys

Planner = Callable[[Sequence[JoinQuery], Statistics, ProbePlan | None], ProbePlan]
"""From queries, statistics and the plan before to probe orders for all of them."""

LIMITS = Limits(time=timedelta(seconds=1), gap=0.01)
"""A changelog waits for the plan: better a good one soon than the best one late."""
_MOST_CHANGED = 0.5
"""Share of the queries up to which a plan is changed instead of made anew (AJoin's rule)."""
_MANY = 100
"""Queries from which on a plan that can be changed is not made anew: a changelog waits for it."""


def plan_probes(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """The cheapest probe orders found in a second; of many queries only what came or went is planned."""
    if before is not None and len(queries) >= _MANY:
        changed = _changed(before, queries)
        if changed is not None:
            return changed
    return plan_probe_orders(queries, statistics, COSTS, limits=LIMITS)


def _changed(before: ProbePlan, queries: Sequence[JoinQuery]) -> ProbePlan | None:
    """The plan before for the queries of now; None if too many came or went."""
    now = {query.id: query for query in queries}
    gone = [each for each in before.queries if each not in now]
    new = [query for query in queries if query.id not in before.queries]
    if len(gone) + len(new) > _MOST_CHANGED * len(queries):
        return None
    return add_queries(drop_queries(before, gone), new)


COSTS = CostModel(storage_price=0.2, input_price=0.0, sliding=True)
"""Inputs are stored with all their indexes, whatever the plan. To keep an intermediate result for a window of five
seconds costs as much as to send it on once more."""


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


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen of the streams: rows per second by stream, and rows and distinct keys of a bucket by index."""

    rates: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def statistics_of(queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId], measured: Measured) -> Statistics:
    """What is known of the inputs: how fast they come, how long the query that reaches back furthest needs them, and
    how many keys they have."""
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
        rates={each: _rounded(measured.rates[each.stream]) for each in kept if each.stream in measured.rates},
        distinct_keys={at: _rounded(keys) for at, keys in _distinct_keys(queries, stores, measured)},
        kept=kept,
    )


def _rounded(figure: float) -> float:
    """To a power of two: plans shall not change with every breath, since intermediate results are rebuilt then."""
    return 2.0 ** round(math.log2(figure)) if figure > 0 else figure


def _distinct_keys(
    queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId], measured: Measured
) -> Iterator[tuple[Attribute, float]]:
    for condition in (each for query in queries for each in query.conditions.values()):
        if isinstance(condition, Equality):
            for side, index in (
                (condition.left, condition.left_index),
                (condition.right, condition.right_index),
            ):
                seen = measured.keys.get(f"{stores[side]}/{index.id}")
                if seen is not None:
                    yield Attribute(join_input(side), key_text(index.key)), distinct_keys(*seen)


def plan_each_alone(queries: Sequence[JoinQuery], statistics: Statistics, before: ProbePlan | None) -> ProbePlan:
    """Each query on the orders that are best for it alone; equal steps are one all the same.

    What common subplans give without a common plan: the yardstick for planning all together.
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
