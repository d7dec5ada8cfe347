"""Explanations of probe orders: every decision with its cost, its alternatives and its savings.

The values are meant for the CLI and the dashboard; `to_json` returns plain lists, numbers and strings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from weft.plan.changelog import QueryId
from weft.planner.highs import gap_of
from weft.planner.joins.order_plan import Method, ProbePlan
from weft.planner.joins.orders import plan_alone
from weft.planner.rule_sets.candidates import candidate_orders, count_orders

_MOST_ALTERNATIVES = 5
_MOST_LISTED = 5000
"""The largest number of orders of one relation that are enumerated to find the best alternatives."""


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A chosen probe step, whose cost `queries` share."""

    store: str
    partitioned_by: str
    broadcast: bool
    cost: float
    queries: tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A probe order that was not chosen, and its cost without sharing."""

    stores: tuple[str, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class OrderDecision:
    """The probe order of one relation for one query."""

    query: QueryId
    start: str
    steps: tuple[ExplainedStep, ...]
    cost: float
    """The cost of all steps, without sharing."""
    share: float
    """The cost of all steps, each divided by the number of queries that use the step."""
    alternatives: tuple[Alternative, ...]
    considered: int
    """The number of possible orders."""


@dataclass(frozen=True, slots=True)
class StoreDecision:
    """A stored join: the cost of storing and maintaining it, and the queries that probe it."""

    relations: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    stored: float
    storage_cost: float
    upkeep_cost: float
    """The cost of the steps that only the maintenance of the stored join needs."""
    queries: tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class QuerySaving:
    """The cost of a query planned alone, and its share of the plan; all shares add up to the plan's cost."""

    query: QueryId
    alone: float
    shared: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """All decisions of a probe plan."""

    method: Method
    cost: float
    probe_cost: float
    storage_cost: float
    bound: float
    gap: float
    alone: float
    saved: float
    saved_fraction: float
    orders: tuple[OrderDecision, ...]
    stores: tuple[StoreDecision, ...]
    queries: tuple[QuerySaving, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with tuples as lists."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return plain


def explain_orders(plan: ProbePlan, alone: Mapping[QueryId, float] | None = None) -> Explanation:
    """Explain every decision of a plan; `alone` has the known costs of queries planned alone."""
    known = dict(alone or {})
    estimates = plan.lattice.estimates
    for query in plan.queries.values():
        if query.id not in known:
            known[query.id] = plan_alone(query, estimates.statistics, estimates.model).cost
    shares = _shares(plan)
    total = math.fsum(known[query] for query in plan.queries)
    return Explanation(
        method=plan.method,
        cost=plan.cost,
        probe_cost=plan.probe_cost,
        storage_cost=plan.storage_cost,
        bound=plan.bound,
        gap=plan.gap,
        alone=total,
        saved=total - plan.cost,
        saved_fraction=gap_of(total, plan.cost),
        orders=_orders(plan),
        stores=_stores(plan),
        queries=tuple(QuerySaving(query, known[query], shares[query]) for query in plan.queries),
    )


def _orders(plan: ProbePlan) -> tuple[OrderDecision, ...]:
    lattice, users = plan.lattice, _users(plan)
    decisions = []
    for query in plan.queries:
        for node in lattice.targets[query]:
            steps = tuple(_step(plan, edge, users) for edge in plan.paths[node])
            chosen = tuple(step.store for step in steps)
            considered = count_orders(lattice, node)
            options = [
                Alternative(tuple(" ⋈ ".join(names) for names in order.stores), order.cost)
                for order in (candidate_orders(lattice, node) if considered <= _MOST_LISTED else ())
            ]
            others = sorted((option for option in options if option.stores != chosen), key=lambda option: option.cost)
            decisions.append(
                OrderDecision(
                    query,
                    lattice.graph.inputs[lattice.nodes[node].start].text,
                    steps,
                    math.fsum(step.cost for step in steps),
                    math.fsum(step.cost / max(1, len(step.queries)) for step in steps),
                    tuple(others[:_MOST_ALTERNATIVES]),
                    considered,
                )
            )
    return tuple(decisions)


def _step(plan: ProbePlan, edge: int, users: Mapping[int, tuple[QueryId, ...]]) -> ExplainedStep:
    step = plan.step(edge)
    return ExplainedStep(" ⋈ ".join(step.store), step.attribute, step.broadcast, step.cost, users[edge])


def _stores(plan: ProbePlan) -> tuple[StoreDecision, ...]:
    lattice, users, own = plan.lattice, _users(plan), _own_edges(plan)
    decisions = []
    for store in sorted({lattice.copies[number].store for number in plan.copies}):
        stored = lattice.stores[store]
        if not stored.is_intermediate:
            continue
        copies = [lattice.copies[number] for number in sorted(plan.copies) if lattice.copies[number].store == store]
        probes = [edge for edge in plan.edge_copy if lattice.edges[edge].store == store]
        upkeep = {edge for node in lattice.upkeep[store] for edge in plan.paths[node]} - own
        decisions.append(
            StoreDecision(
                lattice.graph.names(stored.inputs),
                tuple(sorted("" if copy.attribute is None else copy.attribute.text for copy in copies)),
                lattice.estimates.stored(stored.inputs, stored.predicates),
                math.fsum(copy.cost for copy in copies),
                math.fsum(lattice.edges[edge].cost for edge in upkeep),
                tuple(sorted({query for edge in probes for query in users[edge]})),
            )
        )
    return tuple(decisions)


def _users(plan: ProbePlan) -> dict[int, tuple[QueryId, ...]]:
    """Return the queries of each edge: those whose results use the edge, or that probe a stored join it maintains."""
    lattice = plan.lattice
    direct: dict[int, set[QueryId]] = {edge: set() for edge in plan.edge_copy}
    for query in plan.queries:
        waiting, seen = list(lattice.targets[query]), set[int]()
        while waiting:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            for edge in plan.paths[node]:
                direct[edge].add(query)
                waiting.extend(lattice.upkeep[lattice.edges[edge].store])
    return {edge: tuple(sorted(queries)) for edge, queries in direct.items()}


def _own_edges(plan: ProbePlan) -> set[int]:
    return {edge for query in plan.queries for node in plan.lattice.targets[query] for edge in plan.paths[node]}


def _shares(plan: ProbePlan) -> dict[QueryId, float]:
    """Divide the plan's cost among the queries: each edge and copy in equal parts among the queries that need it."""
    users = _users(plan)
    shares = dict.fromkeys(plan.queries, 0.0)
    for edge, queries in users.items():
        for query in queries:
            shares[query] += plan.lattice.edges[edge].cost / len(queries)
    for copy in plan.copies:
        probing = {query for edge, used in plan.edge_copy.items() if used == copy for query in users[edge]}
        for query in probing:
            shares[query] += plan.lattice.copies[copy].cost / len(probing)
    return shares


def _plain(value: object) -> object:
    match value:
        case dict():
            return {str(key): _plain(member) for key, member in value.items()}
        case tuple() | list():
            return [_plain(member) for member in value]
        case _:
            return value
