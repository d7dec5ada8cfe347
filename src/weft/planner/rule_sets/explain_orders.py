"""Why the probe orders are as they are: every decision with its cost, its alternatives and what it saved.

Values for the CLI and the dashboard; `to_json` gives plain lists, numbers and texts.
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
"""Orders of one relation up to which they are written out to find the best alternatives."""


@dataclass(frozen=True, slots=True)
class Step:
    """A probe that was chosen; `queries` share its cost."""

    store: str
    partitioned_by: str
    broadcast: bool
    cost: float
    queries: tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    """A probe order that was not chosen, and what it would cost if nobody shared any of it."""

    stores: tuple[str, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class OrderDecision:
    """The probe order of one relation for one query."""

    query: QueryId
    start: str
    steps: tuple[Step, ...]
    cost: float
    """Of all its steps, as if it were alone."""
    share: float
    """Of all its steps, each divided by the queries that use it."""
    alternatives: tuple[Alternative, ...]
    considered: int
    """How many orders there are."""


@dataclass(frozen=True, slots=True)
class StoreDecision:
    """A join that is stored: what holding it and keeping it up costs, and which queries probe it."""

    relations: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    stored: float
    storage_cost: float
    upkeep_cost: float
    """Of the steps that only its upkeep needs."""
    queries: tuple[QueryId, ...]


@dataclass(frozen=True, slots=True)
class QuerySaving:
    """A query's cost alone, and its share of the common plan; shares add up to the plan's cost."""

    query: QueryId
    alone: float
    shared: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole choice."""

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
        """Plain values, tuples as lists."""
        plain = _plain(asdict(self))
        assert isinstance(plain, dict)
        return plain


def explain(plan: ProbePlan, alone: Mapping[QueryId, float] | None = None) -> Explanation:
    """Every decision of the plan; `alone` are costs of queries planned alone where they are known already."""
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
    found = []
    for query in plan.queries:
        for node in lattice.targets[query]:
            steps = tuple(_step(plan, edge, users) for edge in plan.paths[node])
            taken = tuple(step.store for step in steps)
            considered = count_orders(lattice, node)
            options = [
                Alternative(tuple(" ⋈ ".join(names) for names in each.stores), each.cost)
                for each in (candidate_orders(lattice, node) if considered <= _MOST_LISTED else ())
            ]
            others = sorted((each for each in options if each.stores != taken), key=lambda each: each.cost)
            found.append(
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
    return tuple(found)


def _step(plan: ProbePlan, edge: int, users: Mapping[int, tuple[QueryId, ...]]) -> Step:
    each = plan.step(edge)
    return Step(" ⋈ ".join(each.store), each.attribute, each.broadcast, each.cost, users[edge])


def _stores(plan: ProbePlan) -> tuple[StoreDecision, ...]:
    lattice, users, own = plan.lattice, _users(plan), _own_edges(plan)
    found = []
    for store in sorted({lattice.copies[copy].store for copy in plan.copies}):
        held = lattice.stores[store]
        if not held.is_intermediate:
            continue
        copies = [lattice.copies[copy] for copy in sorted(plan.copies) if lattice.copies[copy].store == store]
        probes = [edge for edge in plan.edge_copy if lattice.edges[edge].store == store]
        upkeep = {edge for node in lattice.upkeep[store] for edge in plan.paths[node]} - own
        found.append(
            StoreDecision(
                lattice.graph.names(held.inputs),
                tuple(sorted("" if each.attribute is None else each.attribute.text for each in copies)),
                lattice.estimates.stored(held.inputs, held.predicates),
                math.fsum(each.cost for each in copies),
                math.fsum(lattice.edges[edge].cost for edge in upkeep),
                tuple(sorted({query for edge in probes for query in users[edge]})),
            )
        )
    return tuple(found)


def _users(plan: ProbePlan) -> dict[int, tuple[QueryId, ...]]:
    """For each edge the queries whose results come that way; for upkeep, those that probe what is kept."""
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
    """The plan's cost divided among the queries: each edge and copy in equal parts among those that need it."""
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
            return {str(key): _plain(each) for key, each in value.items()}
        case tuple() | list():
            return [_plain(each) for each in value]
        case _:
            return value
