"""From chosen probe orders to what a batch does: probe trees, in stages.

Orders from one input are merged by their common beginnings (CLASH V-B). A step that needs its combinations divided by
another key than the step before waits for the next stage of the batch, as does one that probes a store of
intermediate results until the batch's own additions to that store are there.
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
"""An input and the text of a key of it: what combinations are divided by."""


def build_forest(
    plan: ProbePlan, queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId]
) -> ProbeForest:  # fmt: skip
    """The probe trees of a plan; `stores` has the store of each input's own rows."""
    return _Builder(plan, queries, stores).forest()


@dataclass(slots=True)
class _Twig:
    """A node of a tree while it grows: what is wanted here, and the steps from here on by their edge."""

    slots: Slots = NO_SLOTS
    result_slots: Slots = NO_SLOTS
    keep: int | None = None
    branches: dict[int, _Twig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Timing:
    """When a step takes place, whether in the task of the one before, and what its results are divided by."""

    stage: int
    local: bool
    route: Equality | None
    places: frozenset[Place]


class _Builder:
    def __init__(self, plan: ProbePlan, queries: Sequence[ProbedQuery], stores: Mapping[Input, StoreId]) -> None:
        self.plan = plan
        self.lattice = plan.lattice
        self.stores = stores
        self.queries: dict[QueryId, ProbedQuery] = {each.live.record.id: each for each in queries}
        conditions = {text: each for query in queries for text, each in query.conditions.items()}
        self.numbers = {
            number: conditions[each.text]
            for number, each in enumerate(self.lattice.graph.predicates)
            if each.text in conditions
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
        filters = tuple(each.filter for each in self.queries.values() if each.filter is not None)
        spans = tuple(span for each in self.queries.values() for span in each.spans)
        return ProbeForest(tuple(trees), self._stored(), filters, spans)

    # ---- who wants what

    def _want(self, query: ProbedQuery) -> None:
        """Mark the ways to all that a query needs: its own combinations, and the stores on the way to them."""
        bit = 1 << query.live.slot
        waiting: list[tuple[int, int | None]] = [(node, None) for node in self.lattice.targets[query.join.id]]
        seen: set[int] = set()
        while waiting:
            node, kept = waiting.pop()
            twig = self._mark(node, bit)
            if kept is None:
                twig.result_slots = Slots(twig.result_slots | bit)
            else:
                twig.keep = kept
            for store in (self.lattice.edges[edge].store for edge in self.plan.paths[node]):
                if self.lattice.upkeep[store] and store not in seen:
                    seen.add(store)
                    self.store_slots[store] = Slots(self.store_slots.get(store, NO_SLOTS) | bit)
                    waiting += [(each, store) for each in self.lattice.upkeep[store]]

    def _mark(self, node: int, bit: int) -> _Twig:
        twig = self.roots.setdefault(self.lattice.nodes[node].start, _Twig())
        for edge in self._way_to(node):
            twig = twig.branches.setdefault(edge, _Twig())
            twig.slots = Slots(twig.slots | bit)
        return twig

    def _way_to(self, node: int) -> list[int]:
        """The path to a node; whether a plan would divide or broadcast a step is the same here, where all keys have an
        index, so that of such edges the first stands for both."""
        edges = self.lattice.edges
        return [
            self.steps.setdefault((edges[at].source, edges[at].target, edges[at].store), at)
            for at in self.plan.paths[node]
        ]

    # ---- trees

    def _grown(self, twig: _Twig, start: Input, before: _Timing | None, *, way: str) -> tuple[Probe, ...]:
        return tuple(
            self._probe(edge, branch, start, before, way=way) for edge, branch in sorted(twig.branches.items())
        )  # fmt: skip

    def _probe(self, number: int, twig: _Twig, start: Input, before: _Timing | None, *, way: str) -> Probe:
        """One step; `way` is the id of the step before: different queries may come to the same step on two ways."""
        edge = self.lattice.edges[number]
        source, target = self.lattice.nodes[edge.source], self.lattice.nodes[edge.target]
        timing = self._timing(number, before)
        added, joined = self._inputs(self.lattice.stores[edge.store].inputs), self._inputs(target.inputs)
        between = self._between(number)
        equalities = [_towards(each, added) for each in between if isinstance(each, Equality)]
        result = combination_id(joined, self._texts(target.predicates))
        # Two queries may join the same inputs by the same store and differ in the conditions, so in the result.
        identity = content_id("probe", start.text, way, self._store_id(edge.store), result)
        return Probe(
            id=identity,
            start=start,
            members=self._inputs(source.inputs),
            added=added,
            store=self._store_id(edge.store),
            route=timing.route,
            equalities=tuple(each for each in equalities if each != timing.route),
            comparisons=tuple(each for each in between if isinstance(each, Comparison)),
            slots=twig.slots,
            stage=timing.stage,
            local=timing.local,
            then=self._grown(twig, start, timing, way=identity),
            result=result if twig.result_slots else "",
            result_slots=twig.result_slots,
            keep=None if twig.keep is None else self._store_id(twig.keep),
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
        """The equality to go by: one that needs no exchange, else the one the plan has chosen, else any."""
        edge = self.lattice.edges[number]
        added = self._inputs(self.lattice.stores[edge.store].inputs)
        equalities = [_towards(each, added) for each in self._between(number) if isinstance(each, Equality)]
        chosen = self.lattice.copies[self.plan.edge_copy[number]].attribute
        name = None if chosen is None else (_input(chosen.input), chosen.name)
        return min(
            equalities,
            key=lambda each: (
                _place(each.left, each.left_index) not in places,
                _place(each.right, each.right_index) != name,
                each.text,
            ),
            default=None,
        )

    def _available(self, store: int) -> int:
        """The first stage that sees what the batch adds to a store of intermediate results."""
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

    # ---- from the optimizer's numbers to inputs and conditions

    def _between(self, number: int) -> list[JoinCondition]:
        edge = self.lattice.edges[number]
        known = self.lattice.nodes[edge.source].predicates | self.lattice.stores[edge.store].predicates
        return [self.numbers[each] for each in bits(self.lattice.nodes[edge.target].predicates & ~known)]

    def _inputs(self, numbers: int) -> tuple[Input, ...]:
        return tuple(sorted(_input(self.lattice.graph.inputs[each]) for each in bits(numbers)))

    def _texts(self, predicates: int) -> tuple[str, ...]:
        return tuple(self.numbers[each].text for each in bits(predicates))

    def _store_id(self, store: int) -> StoreId:
        held: StoredSet = self.lattice.stores[store]
        inputs = self._inputs(held.inputs)
        return stored_join_id(inputs, self._texts(held.predicates)) if held.is_intermediate else self.stores[inputs[0]]


def _input(each: JoinInput) -> Input:
    return Input(each.stream, each.role)


def _place(each: Input, index: Index) -> Place:
    return each, key_text(index.key)


def _towards(equality: Equality, added: Sequence[Input]) -> Equality:
    """Seen from the side that is known."""
    return equality if equality.right in added else equality.reversed()
