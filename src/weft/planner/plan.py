"""Planning of all live queries: from queries and statistics to the shared plan, with a trace of every step.

Each query already has its strategy (`planner/strategy.py`). Execution, explain, the graph, what-if and the golden
tests all read the same trace, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.plan.changelog import LiveQuery
from weft.plan.probe_tree import NO_PROBES, ProbeForest
from weft.plan.shared import SharedPlan
from weft.plan.slots import slot_set, words_for
from weft.plan.stream import Stream
from weft.planner.aggregates import plan_aggregates
from weft.planner.joins.normal_form import ProbedQuery, normal_forms
from weft.planner.joins.order_plan import ProbePlan
from weft.planner.joins.planners import Measured, Planner, statistics_of
from weft.planner.joins.statistics import Statistics
from weft.planner.joins.trees import build_forest
from weft.planner.stores import plan_stores, probed_stores


@dataclass(frozen=True, slots=True)
class PlanTrace:
    """The inputs and the decisions of planning, step by step."""

    queries: tuple[LiveQuery, ...]
    """All live queries in the order of their slots."""
    forms: tuple[ProbedQuery, ...]
    """The queries that probe trees serve, in their common form."""
    statistics: Statistics | None
    """The statistics behind the probe orders; None if no query needs probe orders."""
    orders: ProbePlan | None
    """The probe orders, with their cost and its proven bound; None if no query needs probe orders."""
    trees: ProbeForest
    plan: SharedPlan
    notices: tuple[tuple[str, str], ...]
    """Messages for users about their queries: the name of the query, and the text."""


def plan_queries(
    queries: Iterable[LiveQuery],
    streams: Mapping[str, Stream],
    measured: Measured,
    *,
    planner: Planner,
    before: ProbePlan | None = None,
) -> PlanTrace:
    """Plan all live queries together. `before` has the current probe orders, from which the planner may start."""
    ordered = tuple(sorted(queries, key=lambda live: live.slot))
    forms = normal_forms(ordered)
    stores = probed_stores(ordered)
    statistics = statistics_of(forms, stores, measured) if forms else None
    orders = planner([form.join for form in forms], statistics, before) if statistics is not None else None
    trees = build_forest(orders, forms, stores) if orders is not None else NO_PROBES
    plan = assemble(ordered, streams, trees)
    notices = tuple((live.record.name, notice) for live in ordered for notice in live.query.notices)
    return PlanTrace(ordered, forms, statistics, orders, trees, plan, notices)


def assemble(queries: Sequence[LiveQuery], streams: Mapping[str, Stream], trees: ProbeForest) -> SharedPlan:
    """Return the shared plan of queries whose probe trees are already built."""
    stores, joins, session_joins = plan_stores(queries, streams)
    slice_stores, aggregates = plan_aggregates(queries)
    return SharedPlan(
        words=words_for(slot_set(live.slot for live in queries)),
        queries=tuple(queries),
        stores=stores,
        joins=joins,
        session_joins=session_joins,
        slice_stores=slice_stores,
        aggregates=aggregates,
        probes=trees,
    )
