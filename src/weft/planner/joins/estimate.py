"""Expected sizes and rates of every part of a join graph, and from them the cost of a probe and of a store.

MultiStream eq. 2 and CLASH eq. 1: tuples of relation s that were joined with the relations of a set X reach the next
store at rate(s) · Π stored(k) · Π selectivity / |X|, k over the rest of X. The last factor is there because each
result is produced once, by the latest of its |X| tuples; with windows that slide it is 1 (`CostModel.sliding`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.planner.joins.graph import JoinGraph, bits
from weft.planner.joins.statistics import LARGEST, CostModel, Statistics


@dataclass(frozen=True, slots=True)
class Estimates:
    """Sizes and rates by number, for one graph, statistics and cost model; computed once per distinct part."""

    graph: JoinGraph
    statistics: Statistics
    model: CostModel
    rates: tuple[float, ...]
    stores: tuple[float, ...]
    selectivities: tuple[float, ...]
    _flows: dict[tuple[int, int, int], float] = field(default_factory=dict, compare=False, repr=False)
    _sizes: dict[tuple[int, int], float] = field(default_factory=dict, compare=False, repr=False)

    def flow(self, start: int, inputs: int, predicates: int) -> float:
        """Partial results per second that tuples of `start` have after joining the set: what the next probe costs."""
        key = (start, inputs, predicates)
        found = self._flows.get(key)
        if found is None:
            factors = [self.stores[number] for number in bits(inputs) if number != start]
            factors.append(self.rates[start])
            factors.extend(self.selectivities[number] for number in bits(predicates))
            found = self._flows[key] = _product(factors) / (1 if self.model.sliding else inputs.bit_count())
        return found

    def stored(self, inputs: int, predicates: int) -> float:
        """Tuples in a store of this join."""
        key = (inputs, predicates)
        found = self._sizes.get(key)
        if found is None:
            factors = [self.stores[number] for number in bits(inputs)]
            factors.extend(self.selectivities[number] for number in bits(predicates))
            found = self._sizes[key] = _product(factors)
        return found

    def tasks(self, inputs: int) -> int:
        """Tasks a store of this set is spread over: those of its widest relation."""
        default = self.model.tasks
        return max(max(1, self.statistics.tasks.get(self.graph.inputs[number], default)) for number in bits(inputs))

    def storage_cost(self, inputs: int, predicates: int) -> float:
        """Price of one copy of a store."""
        price = self.model.storage_price
        if inputs.bit_count() == 1 and self.model.input_price is not None:
            price = self.model.input_price
        return price * self.stored(inputs, predicates)


def estimate(graph: JoinGraph, statistics: Statistics, model: CostModel) -> Estimates:
    """Estimates for every part of the graph."""
    return Estimates(
        graph,
        statistics,
        model,
        tuple(statistics.rate(each) for each in graph.inputs),
        tuple(statistics.stored(each) for each in graph.inputs),
        tuple(statistics.selectivity(each) for each in graph.predicates),
    )


def _product(factors: list[float]) -> float:
    """Finite even where the partial products would not be."""
    if 0.0 in factors:
        return 0.0
    product = math.prod(sorted(factors))
    if product == 0.0 or math.isinf(product):
        product = math.exp(min(math.log(LARGEST), math.fsum(map(math.log, factors))))
    return min(LARGEST, product)
