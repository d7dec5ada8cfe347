"""Random selections on an attribute, as AStream and AJoin draw them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from weft_bench.data import ATTRIBUTES, DOMAIN

LEAST, MOST = 0.2, 0.8
"""Part of the rows that an observed query's selections pass: it shall be neither empty nor everything."""


class Comparison(StrEnum):
    """The operators of figures 4.7, 4.8 and 5.17."""

    EQUAL = "="
    ABOVE = ">"
    BELOW = "<"
    FROM = ">="
    UP_TO = "<="


RANGES = (Comparison.ABOVE, Comparison.BELOW)
EVERY = tuple(Comparison)


@dataclass(frozen=True, slots=True)
class Predicate:
    """`f<attribute>` compared with a value."""

    attribute: int
    comparison: Comparison
    value: int

    def sql(self, alias: str) -> str:
        """As a condition on a relation."""
        return f"{alias}.f{self.attribute} {self.comparison} {self.value}"

    def selectivity(self, domain: int = DOMAIN) -> float:
        """Part of equally distributed values that pass."""
        match self.comparison:
            case Comparison.EQUAL:
                passing = 1
            case Comparison.ABOVE:
                passing = domain - self.value - 1
            case Comparison.BELOW:
                passing = self.value
            case Comparison.FROM:
                passing = domain - self.value
            case Comparison.UP_TO:
                passing = self.value + 1
        return passing / domain


def draw_predicate(
    rng: np.random.Generator,
    comparisons: tuple[Comparison, ...] = RANGES,
    *,
    observed: bool = False,
    attributes: int = ATTRIBUTES,
    domain: int = DOMAIN,
) -> Predicate:
    """A random selection; that of an observed query passes some rows, and not all."""
    while True:
        found = Predicate(
            int(rng.integers(attributes)),
            comparisons[int(rng.integers(len(comparisons)))],
            int(rng.integers(domain)),
        )
        if not observed or LEAST <= found.selectivity(domain) <= MOST:
            return found
