"""The cheapest probe orders by trying all combinations, from the definitions; shares no code with `optimize`.

A choice is: for each query and relation an order of stores and a partitioning of each; for each intermediate store
that is probed the same again. A step is paid once whoever uses it; a copy of a store is paid once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from weft.planner.joins.graph import JoinInput, JoinQuery, Predicate
from weft.planner.joins.statistics import CostModel, Statistics

Inputs = frozenset[JoinInput]
Predicates = frozenset[Predicate]
Target = tuple[JoinInput, Inputs, Predicates]


class TooMany(Exception):
    """There are more combinations than anybody wants to wait for."""


@dataclass
class Oracle:
    queries: list[JoinQuery]
    statistics: Statistics
    model: CostModel
    most: int = 20_000
    """Probe orders to try before giving up."""
    best: float = math.inf
    tried: int = 0
    copies: dict[tuple[Inputs, Predicates], set[str]] = field(default_factory=dict)
    last: dict[Target, float] = field(default_factory=dict)
    joined: list[JoinInput] = field(default_factory=list)
    singles: dict[JoinInput, set[str]] = field(default_factory=dict)

    def cheapest(self) -> float:
        for query in self.queries:
            self.note_copies(query)
        targets = [
            (start, frozenset(query.inputs), frozenset(query.predicates))
            for query in self.queries
            for start in query.inputs
        ]
        self.joined = sorted({each for query in self.queries if len(query.inputs) > 1 for each in query.inputs},
                             key=lambda each: each.text)  # fmt: skip
        self.singles = {each: self.copies[frozenset((each,)), frozenset()] or {""} for each in self.joined}
        self.last = {target: self.last_step(target) for target in targets if self.is_nobodys_part(target)}
        self.search(targets, frozenset(), {}, 0.0)
        return self.best

    def is_nobodys_part(self, target: Target) -> bool:
        """Whether no larger query joins the same: then no path but its own leads there."""
        _, whole, predicates = target
        return not any(
            whole < frozenset(query.inputs) and within(whole, frozenset(query.predicates)) == predicates
            for query in self.queries
        )

    def last_step(self, target: Target) -> float:
        """What the last step of any order costs at least."""
        steps = [steps[-1] for steps in self.orders(target, frozenset((target[0],))) if steps]
        return min((cost for _, cost, _ in steps), default=0.0)

    def note_copies(self, query: JoinQuery) -> None:
        """Each connected part can be partitioned by what some query compares it with outside by equality."""
        for size in range(1, len(query.inputs)):
            for chosen in combinations(query.inputs, size):
                inside = frozenset(chosen)
                predicates = within(inside, frozenset(query.predicates))
                if not connected(inside, predicates):
                    continue
                found = self.copies.setdefault((inside, predicates), set())
                for each in query.predicates:
                    ends = [side for side in (each.left, each.right) if side.input in inside]
                    if len(ends) == 1 and each.comparison == "=":
                        found.add(ends[0].text)

    def search(self, targets: list[Target], done: frozenset[Target], paid: dict[object, float], cost: float) -> None:
        least = [self.last.get(target, 0.0) for target in {*targets} - done]
        if cost + math.fsum(least) + self.unpaid(paid) >= self.best - 1e-9:
            return
        if not targets:
            self.best = cost
            return
        target, *rest = targets
        if target in done:
            self.search(rest, done, paid, cost)
            return
        options = []
        for steps in self.orders(target, frozenset((target[0],))):
            self.tried += 1
            if self.tried > self.most:
                raise TooMany
            new = {key: price for key, price, _ in steps if key not in paid}
            new |= {store: self.held(store) for _, _, store in steps if store not in paid}
            options.append((math.fsum(new.values()), new, steps))
        for price, new, steps in sorted(options, key=lambda each: each[0]):
            stores = [(inside, predicates) for _, _, (inside, predicates, _) in steps if len(inside) > 1]
            upkeep = [(start, *store) for store in stores for start in store[0]]
            self.search([*upkeep, *rest], done | {target}, paid | new, cost + price)

    def unpaid(self, paid: dict[object, float]) -> float:
        """Whatever is chosen, each relation's own tuples are stored at least once: some store must be probed first."""
        return math.fsum(
            self.held((frozenset((each,)), frozenset(), ""))
            for each in self.joined
            if not any((frozenset((each,)), frozenset(), copy) in paid for copy in self.singles[each])
        )

    def orders(
        self, target: Target, joined: Inputs
    ) -> Iterator[list[tuple[object, float, tuple[Inputs, Predicates, str]]]]:
        start, whole, predicates = target
        if joined == whole:
            yield []
            return
        left = sorted(whole - joined, key=lambda each: each.text)
        for size in range(1, len(left) + 1 if self.model.intermediates else 2):
            for chosen in combinations(left, size):
                inside = frozenset(chosen)
                kept = within(inside, predicates)
                before = within(joined, predicates)
                between = within(joined | inside, predicates) - kept - before
                if not between or not connected(inside, kept):
                    continue
                flow = self.flow(start, joined, before)
                known = {
                    side.text
                    for each in between
                    for side in (each.left, each.right)
                    if side.input in inside and each.comparison == "="
                }
                for copy in sorted(self.copies[inside, kept]) or [""]:
                    factor = 1 if copy in known else self.tasks(inside)
                    key = (start, joined, before, inside, kept, between, factor)
                    for after in self.orders(target, joined | inside):
                        yield [(key, flow * factor, (inside, kept, copy)), *after]

    def flow(self, start: JoinInput, joined: Inputs, predicates: Predicates) -> float:
        size = self.statistics.rate(start) / len(joined)
        for each in joined - {start}:
            size *= self.statistics.stored(each)
        for predicate in predicates:
            size *= self.statistics.selectivity(predicate)
        return size

    def held(self, store: tuple[Inputs, Predicates, str]) -> float:
        size = self.model.storage_price
        for each in store[0]:
            size *= self.statistics.stored(each)
        for predicate in store[1]:
            size *= self.statistics.selectivity(predicate)
        return size

    def tasks(self, inside: Inputs) -> int:
        return max(self.statistics.tasks.get(each, self.model.tasks) for each in inside)


def within(inputs: Inputs, predicates: Predicates) -> Predicates:
    return frozenset(each for each in predicates if each.left.input in inputs and each.right.input in inputs)


def connected(inputs: Inputs, predicates: Predicates) -> bool:
    reached = {min(inputs, key=lambda each: each.text)}
    for _ in inputs:
        for each in predicates:
            if each.left.input in reached or each.right.input in reached:
                reached |= {each.left.input, each.right.input}
    return reached == set(inputs)
