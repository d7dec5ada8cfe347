"""Probe orders of one query (MultiStream IV): the order in which a new row visits the stores of the other relations.

An equality sends each combination to the one task that can have matching rows; any other comparison broadcasts the
combination to all tasks of a store whose rows are placed at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from weft.planner.joins.estimate import Estimates
from weft.planner.joins.graph import JoinInput, JoinQuery, bits

MOST_EXHAUSTIVE = 6
"""The largest number of relations for which all orders are tried: 5! per start."""


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """The order in which new rows of `inputs[0]` probe the other inputs, for `cost` combinations sent per second."""

    inputs: tuple[JoinInput, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class Probing:
    """The probe costs of one query; with `broadcast`, even equalities probe every task."""

    estimates: Estimates
    inputs: int
    predicates: int
    broadcast: bool = False

    def step(self, start: int, joined: int, probed: int) -> float:
        """Return the combinations per second sent from the joined set to the store of a disjoint set (eq. 2)."""
        flow = self.estimates.flow(start, joined, self.estimates.graph.within(joined, self.predicates))
        return flow * (1 if self._is_routed(joined, probed) else self.estimates.tasks(probed))

    def next_inputs(self, joined: int) -> list[int]:
        """Return the relations that a predicate connects to the set; probing others would be a cross product."""
        around = 0
        neighbours = self.estimates.graph.neighbours(self.predicates)
        for number in bits(joined):
            around |= neighbours.get(number, 0)
        return list(bits(around & self.inputs & ~joined))

    def cost(self, order: tuple[int, ...]) -> float:
        """Return the probe cost of one order."""
        joined, steps = 1 << order[0], []
        for number in order[1:]:
            steps.append(self.step(order[0], joined, 1 << number))
            joined |= 1 << number
        return math.fsum(steps)

    def _is_routed(self, joined: int, probed: int) -> bool:
        if self.broadcast:
            return False
        graph = self.estimates.graph
        for number in bits(self.predicates):
            left, right = graph.ends[number]
            crosses = (joined >> left & 1 and probed >> right & 1) or (joined >> right & 1 and probed >> left & 1)
            if crosses and graph.predicates[number].is_equality:
                return True
        return False


def probing_of(query: JoinQuery, estimates: Estimates, *, broadcast: bool = False) -> Probing:
    """Return the probe costs of a query; the graph of the estimates must contain its relations."""
    inputs, predicates = estimates.graph.encode(query)
    return Probing(estimates, inputs, predicates, broadcast)


def greedy_order(probing: Probing, start: int) -> tuple[int, ...]:
    """Return an order by MultiStream fig. 4: the next store has the least cost together with the best one after it."""
    order, joined = [start], 1 << start
    while joined != probing.inputs:
        best = min(probing.next_inputs(joined), key=lambda number: (_two_steps(probing, start, joined, number), number))
        order.append(best)
        joined |= 1 << best
    return tuple(order)


def exhaustive_order(probing: Probing, start: int) -> tuple[int, ...]:
    """Return the cheapest of all orders, for at most `MOST_EXHAUSTIVE` relations."""
    if probing.inputs.bit_count() > MOST_EXHAUSTIVE:
        raise ValueError(f"all probe orders of more than {MOST_EXHAUSTIVE} relations are too many to try")
    return min(all_orders(probing, start), key=lambda order: (probing.cost(order), order))


def all_orders(probing: Probing, start: int) -> Iterator[tuple[int, ...]]:
    """Yield every order without a cross product."""

    def continued(order: tuple[int, ...], joined: int) -> Iterator[tuple[int, ...]]:
        if joined == probing.inputs:
            yield order
        for number in probing.next_inputs(joined):
            yield from continued((*order, number), joined | 1 << number)

    return continued((start,), 1 << start)


def greedy_orders(query: JoinQuery, estimates: Estimates, *, broadcast: bool = False) -> tuple[ProbeOrder, ...]:
    """Return a greedy order for each relation of the query; the costs add up to eq. 2."""
    probing = probing_of(query, estimates, broadcast=broadcast)
    return tuple(_named(probing, greedy_order(probing, start)) for start in bits(probing.inputs))


def exhaustive_orders(query: JoinQuery, estimates: Estimates, *, broadcast: bool = False) -> tuple[ProbeOrder, ...]:
    """Return the cheapest order for each relation of the query."""
    probing = probing_of(query, estimates, broadcast=broadcast)
    return tuple(_named(probing, exhaustive_order(probing, start)) for start in bits(probing.inputs))


def _two_steps(probing: Probing, start: int, joined: int, number: int) -> float:
    cost = probing.step(start, joined, 1 << number)
    after = joined | 1 << number
    return cost + min((probing.step(start, after, 1 << further) for further in probing.next_inputs(after)), default=0.0)


def _named(probing: Probing, order: tuple[int, ...]) -> ProbeOrder:
    inputs = probing.estimates.graph.inputs
    return ProbeOrder(tuple(inputs[number] for number in order), probing.cost(order))
