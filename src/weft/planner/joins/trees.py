"""Probe trees, built from the chosen probe orders and divided into the stages of a batch.

Probe orders of one input are merged by their common prefixes (CLASH V-B). A step that needs its combinations
partitioned by another key than the previous step waits for the next stage of the batch. A step that probes a stored
join waits until the batch's own additions to the stored join are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.plan.changelog import QueryId
from weft.plan.key import Index, StoreId, content_id, key_text
from weft.plan.probe_tree import (
    Comparison,
    Equality,
    Input,
    JoinCondition,
    Probe,
    ProbeForest,
    StoredJoin,
    combination_id,
    stored_join_id,
)
from weft.plan.slots import NO_SLOTS, Slots
from weft.planner.joins.graph import JoinInput, bits
from weft.planner.joins.lattice import StoredSet
from weft.planner.joins.normal_form import ProbedQuery
from weft.planner.joins.order_plan import ProbePlan

Place = tuple[Input, str]
"""An input and the text of one of its keys, by which combinations can be partitioned."""


def build_forest(
    plan: ProbePlan, queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId]
) -> ProbeForest:  # fmt: skip
    """Return the probe trees of a plan; `stores` has the store of each input."""
    return _Builder(plan, queries, stores).forest()


@dataclass(slots=True)
class _Twig:
    """A node of a probe tree under construction: the slots that use it, and the next steps by edge."""

    slots: Slots = NO_SLOTS
    result_slots: Slots = NO_SLOTS
    keep: int | None = None
    branches: dict[int, _Twig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Timing:
    """The stage of a step, whether it stays in the previous step's task, and how its results are partitioned."""

    stage: int
    local: bool
    route: Equality | None
    places: frozenset[Place]


class _Builder:
    def __init__(self, plan: ProbePlan, queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId]) -> None:
        self.plan = plan
        self.lattice = plan.lattice
        self.stores = stores
        self.queries: dict[QueryId, ProbedQuery] = {query.live.record.id: query for query in queries}
        conditions = {text: condition for query in queries for text, condition in query.conditions.items()}
        self.numbers = {
            number: conditions[predicate.text]
            for number, predicate in enumerate(self.lattice.graph.predicates)
            if predicate.text in conditions
        }
        self.steps: dict[tuple[int, int, int], int] = {}
        self.roots: dict[int, _Twig] = {}
        self.store_slots: dict[int, Slots] = {}
        self.available: dict[int, int] = {}
        self.indexes: dict[int, dict[Place, Index]] = {}

    def forest(self) -> ProbeForest:
        for query in self.queries.values():
            self._want(query)
        trees = [
            probe
            for start, twig in sorted(self.roots.items())
            for probe in self._grown(twig, _input(self.lattice.graph.inputs[start]), None, way="")
        ]
        filters = tuple(query.filter for query in self.queries.values() if query.filter is not None)
        spans = tuple(span for query in self.queries.values() for span in query.spans)
        return ProbeForest(tuple(trees), self._stored(), filters, spans)

    # ---- slots of each step

    def _want(self, query: ProbedQuery) -> None:
        """Mark the paths that a query needs: to its own combinations, and to the stored joins on those paths."""
        bit = 1 << query.live.slot
        waiting: list[tuple[int, int | None]] = [(node, None) for node in self.lattice.targets[query.join.id]]
        seen: set[int] = set()
        while waiting:
            node, kept_in = waiting.pop()
            twig = self._mark(node, bit)
            if kept_in is None:
                twig.result_slots = Slots(twig.result_slots | bit)
            else:
                twig.keep = kept_in
            for store in (self.lattice.edges[edge].store for edge in self.plan.paths[node]):
                if self.lattice.upkeep[store] and store not in seen:
                    seen.add(store)
                    self.store_slots[store] = Slots(self.store_slots.get(store, NO_SLOTS) | bit)
                    waiting += [(upkeep_node, store) for upkeep_node in self.lattice.upkeep[store]]

    def _mark(self, node: int, bit: int) -> _Twig:
        twig = self.roots.setdefault(self.lattice.nodes[node].start, _Twig())
        for edge in self._way_to(node):
            twig = twig.branches.setdefault(edge, _Twig())
            twig.slots = Slots(twig.slots | bit)
        return twig

    def _way_to(self, node: int) -> list[int]:
        """Return the path to a node. A partitioned and a broadcast edge for the same step are equal here, because all
        keys have an index, so the first one seen represents both."""
        edges = self.lattice.edges
        return [
            self.steps.setdefault((edges[edge].source, edges[edge].target, edges[edge].store), edge)
            for edge in self.plan.paths[node]
        ]

    # ---- trees

    def _grown(self, twig: _Twig, start: Input, before: _Timing | None, *, way: str) -> tuple[Probe, ...]:
        return tuple(
            self._probe(edge, branch, start, before, way=way) for edge, branch in sorted(twig.branches.items())
        )  # fmt: skip

    def _probe(self, number: int, twig: _Twig, start: Input, before: _Timing | None, *, way: str) -> Probe:
        """Return one step; `way` is the id of the previous step: queries may reach the same edge by different steps."""
        edge = self.lattice.edges[number]
        source, target = self.lattice.nodes[edge.source], self.lattice.nodes[edge.target]
        timing = self._timing(number, before)
        added, joined = self._inputs(self.lattice.stores[edge.store].inputs), self._inputs(target.inputs)
        between = self._between(number)
        equalities = [_towards(condition, added) for condition in between if isinstance(condition, Equality)]
        result = combination_id(joined, self._texts(target.predicates))
        # The id includes the result: two queries may probe the same store for the same inputs by different conditions.
        identity = content_id("probe", start.text, way, self._store_id(edge.store), result)
        return Probe(
            id=identity,
            start=start,
            members=self._inputs(source.inputs),
            added=added,
            store=self._store_id(edge.store),
            route=timing.route,
            equalities=tuple(equality for equality in equalities if equality != timing.route),
            comparisons=tuple(condition for condition in between if isinstance(condition, Comparison)),
            slots=twig.slots,
            stage=timing.stage,
            local=timing.local,
            then=self._grown(twig, start, timing, way=identity),
            result=result if twig.result_slots else "",
            result_slots=twig.result_slots,
            keep=None if twig.keep is None else self._store_id(twig.keep),
            cost=edge.cost,
        )

    def _timing(self, number: int, before: _Timing | None) -> _Timing:
        edge = self.lattice.edges[number]
        stored = self.lattice.stores[edge.store]
        route = self._route(number, frozenset() if before is None else before.places)
        self._index(edge.store, route)
        ready = self._available(edge.store) if stored.is_intermediate else 1
        if before is None:
            stage, local, places = ready, False, frozenset[Place]()
        elif route is not None and _place(route.left, route.left_index) in before.places and ready <= before.stage:
            stage, local, places = before.stage, True, before.places
        else:
            stage, local, places = max(before.stage + 1, ready), False, frozenset[Place]()
        if route is not None:
            places |= {_place(route.left, route.left_index), _place(route.right, route.right_index)}
        return _Timing(stage, local, route, places)

    def _route(self, number: int, places: frozenset[Place]) -> Equality | None:
        """Return the equality to route by: one that needs no exchange, else the one that the plan chose, else any."""
        edge = self.lattice.edges[number]
        added = self._inputs(self.lattice.stores[edge.store].inputs)
        equalities = [_towards(other, added) for other in self._between(number) if isinstance(other, Equality)]
        chosen = self.lattice.copies[self.plan.edge_copy[number]].attribute
        chosen_place = None if chosen is None else (_input(chosen.input), chosen.name)
        return min(
            equalities,
            key=lambda equality: (
                _place(equality.left, equality.left_index) not in places,
                _place(equality.right, equality.right_index) != chosen_place,
                equality.text,
            ),
            default=None,
        )

    def _available(self, store: int) -> int:
        """Return the first stage that sees what the batch adds to a stored join."""
        if store not in self.available:
            last = 0
            for node in self.lattice.upkeep[store]:
                timing: _Timing | None = None
                for edge in self._way_to(node):
                    timing = self._timing(edge, timing)
                last = max(last, 0 if timing is None else timing.stage)
            self.available[store] = last + 1
        return self.available[store]

    def _index(self, store: int, route: Equality | None) -> None:
        if route is not None:
            place = _place(route.right, route.right_index)
            self.indexes.setdefault(store, {})[place] = route.right_index

    def _stored(self) -> tuple[StoredJoin, ...]:
        return tuple(
            StoredJoin(
                self._store_id(store),
                self._inputs(self.lattice.stores[store].inputs),
                tuple((place[0], index) for place, index in sorted(self.indexes.get(store, {}).items())),
                slots,
                self._available(store),
            )
            for store, slots in sorted(self.store_slots.items())
        )

    # ---- the optimizer's numbers as inputs and conditions

    def _between(self, number: int) -> list[JoinCondition]:
        edge = self.lattice.edges[number]
        known = self.lattice.nodes[edge.source].predicates | self.lattice.stores[edge.store].predicates
        return [self.numbers[predicate] for predicate in bits(self.lattice.nodes[edge.target].predicates & ~known)]

    def _inputs(self, numbers: int) -> tuple[Input, ...]:
        return tuple(sorted(_input(self.lattice.graph.inputs[number]) for number in bits(numbers)))

    def _texts(self, predicates: int) -> tuple[str, ...]:
        return tuple(self.numbers[number].text for number in bits(predicates))

    def _store_id(self, store: int) -> StoreId:
        held: StoredSet = self.lattice.stores[store]
        inputs = self._inputs(held.inputs)
        return stored_join_id(inputs, self._texts(held.predicates)) if held.is_intermediate else self.stores[inputs[0]]


def _input(relation: JoinInput) -> Input:
    return Input(relation.stream, relation.role)


def _place(owner: Input, index: Index) -> Place:
    return owner, key_text(index.key)


def _towards(equality: Equality, added: Sequence[Input]) -> Equality:
    """Return the equality with an added input on the right."""
    return equality if equality.right in added else equality.reversed()
