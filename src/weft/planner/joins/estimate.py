"""Estimated sizes and rates of the parts of a join graph, and the costs of probes and stores.

MultiStream eq. 2 and CLASH eq. 1: rows of relation s, joined with the other relations of a set X, reach the next store
at rate(s) · Π stored(k) · Π selectivity / |X|, where k ranges over X without s. The divisor |X| is there because each
combination is produced once, by the latest of its |X| rows; with sliding windows it is 1 (`CostModel.sliding`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.planner.joins.graph import JoinGraph, bits
from weft.planner.joins.statistics import LARGEST, CostModel, Statistics


@dataclass(frozen=True, slots=True)
class Estimates:
    """Sizes and rates for one graph, statistics and cost model, by number; each part is computed once."""

    graph: JoinGraph
    statistics: Statistics
    model: CostModel
    rates: tuple[float, ...]
    stores: tuple[float, ...]
    selectivities: tuple[float, ...]
    _flows: dict[tuple[int, int, int], float] = field(default_factory=dict, compare=False, repr=False)
    _sizes: dict[tuple[int, int], float] = field(default_factory=dict, compare=False, repr=False)

    def flow(self, start: int, inputs: int, predicates: int) -> float:
        """Return the combinations of `inputs` per second that rows of `start` produce: the cost of the next probe."""
        key = (start, inputs, predicates)
        flow = self._flows.get(key)
        if flow is None:
            factors = [self.stores[number] for number in bits(inputs) if number != start]
            factors.append(self.rates[start])
            factors.extend(self.selectivities[number] for number in bits(predicates))
            flow = self._flows[key] = _product(factors) / (1 if self.model.sliding else inputs.bit_count())
        return flow

    def stored(self, inputs: int, predicates: int) -> float:
        """Return the number of combinations in a store of this join."""
        key = (inputs, predicates)
        size = self._sizes.get(key)
        if size is None:
            factors = [self.stores[number] for number in bits(inputs)]
            factors.extend(self.selectivities[number] for number in bits(predicates))
            size = self._sizes[key] = _product(factors)
        return size

    def tasks(self, inputs: int) -> int:
        """Return the number of tasks of a store of this set: the largest number among its relations."""
        default = self.model.tasks
        return max(max(1, self.statistics.tasks.get(self.graph.inputs[number], default)) for number in bits(inputs))

    def storage_cost(self, inputs: int, predicates: int) -> float:
        """Return the cost of one copy of a store."""
        price = self.model.storage_price
        if inputs.bit_count() == 1 and self.model.input_price is not None:
            price = self.model.input_price
        return price * self.stored(inputs, predicates)


def estimate(graph: JoinGraph, statistics: Statistics, model: CostModel) -> Estimates:
    """Return the estimates for every part of the graph."""
    return Estimates(
        graph,
        statistics,
        model,
        tuple(statistics.rate(relation) for relation in graph.inputs),
        tuple(statistics.stored(relation) for relation in graph.inputs),
        tuple(statistics.selectivity(predicate) for predicate in graph.predicates),
    )


def _product(factors: list[float]) -> float:
    """Return the product, at most `LARGEST`, even if an intermediate product overflows or underflows."""
    if 0.0 in factors:
        return 0.0
    product = math.prod(sorted(factors))
    if product == 0.0 or math.isinf(product):
        product = math.exp(min(math.log(LARGEST), math.fsum(map(math.log, factors))))
    return min(LARGEST, product)
