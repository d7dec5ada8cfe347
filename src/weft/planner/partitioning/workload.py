"""The input and the output of shared partitioning (SASPAR II), as values.

The rows of a stream are sent to partitions by the key group of an attribute. Queries that use different attributes of
one stream need a row in several places; a row is sent only once if these places are on the same partition. Assigning
key groups to partitions for all queries together saves copies, as long as no partition is overloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from weft.errors import InvalidSetting

Json: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True, order=True)
class PartitionedInput:
    """A stream and the attribute by which it is partitioned."""

    stream: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.stream}.{self.attribute}"


@dataclass(frozen=True, slots=True)
class PartitionedQuery:
    """The operators of a query. All inputs of one operator (both sides of a join) are partitioned alike (eq. 3)."""

    name: str
    operators: tuple[tuple[PartitionedInput, ...], ...]
    fraction: float = 1.0
    """The fraction of the rows that passes the query's predicates."""

    @property
    def inputs(self) -> tuple[PartitionedInput, ...]:
        """The distinct inputs of all operators, sorted."""
        return tuple(sorted({input_ for operator in self.operators for input_ in operator}))


@dataclass(frozen=True, slots=True)
class Place:
    """A key group of an attribute, and how many of the shared rows it contains."""

    attribute: str
    key_group: int
    rows: float


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of a stream that belong to all of these places, sent once to every partition with at least one of them.

    Only with the coefficients of eq. 4 do places have different numbers of rows; each partition counts the largest.
    """

    stream: str
    places: tuple[Place, ...]


class AssignmentGrouping(StrEnum):
    """Which queries share an assignment."""

    PER_ATTRIBUTE = "per attribute"
    """Queries that use the same attribute of a stream: one assignment per (stream, attribute)."""
    PER_QUERY = "per query"
    """No queries, as eq. 1 is written. A hot key group can be divided by query."""


@dataclass(frozen=True, slots=True)
class PartitioningWorkload:
    """Everything that a choice depends on. Loads may be missing, zero, infinite or not a number."""

    queries: tuple[PartitionedQuery, ...]
    partitions: int
    key_groups: int
    loads: Mapping[PartitionedInput, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Rows per key group. Inputs without loads are assumed to be as heavy as other inputs of their stream."""
    shared: tuple[SharedRows, ...] = ()
    """The known rows that belong to several places. Other rows count as not shared."""
    latency: tuple[float, ...] = ()
    """The cost of sending a row, per partition (LatNet, LatMem); empty means 1 for all."""
    processing: float = 1.0
    """The cost of processing a row on the most loaded partition (LatProc)."""
    current: Mapping[PartitionedInput, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The assignment in effect: the partition of each key group, by input."""
    grouping: AssignmentGrouping = AssignmentGrouping.PER_ATTRIBUTE

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.key_groups < 1:
            raise InvalidSetting(
                f"shared partitioning of {self.key_groups} key groups over {self.partitions} partitions is impossible",
                hint="Both have to be at least 1.",
            )
        if self.latency and len(self.latency) != self.partitions:
            raise InvalidSetting(
                f"{len(self.latency)} latencies were given for {self.partitions} partitions",
                hint="Give one latency per partition, or none.",
            )


class Rung(StrEnum):
    """How an assignment was found. Algorithm 1 goes from the exact program to simpler ones."""

    HASHING = "hashing"
    CURRENT = "current"
    SEARCH = "search"
    EXACT = "exact"
    MERGED_KEY_GROUPS = "merged key groups"
    MERGED_PARTITIONS = "merged partitions"
    TREE = "tree"
    HYBRID = "hybrid"


LADDER = (Rung.EXACT, Rung.MERGED_KEY_GROUPS, Rung.MERGED_PARTITIONS, Rung.TREE, Rung.HYBRID)
"""The rungs that call the solver, in the order of algorithm 1."""


@dataclass(frozen=True, slots=True)
class PartitioningLimits:
    """The time and the precision of a choice. Equal limits give equal answers unless the solver ran out of time."""

    seconds: float = 4.0
    gap: float = 0.01
    """The proven distance from the optimum that suffices. It doubles with every iteration (alg. 1, line 7)."""
    iterations: int = 2
    seed: int = 0
    rungs: tuple[Rung, ...] = LADDER

    def __post_init__(self) -> None:
        if not (self.seconds >= 0 and self.gap >= 0 and self.iterations >= 1):
            raise InvalidSetting(
                f"limits of {self.seconds} seconds, gap {self.gap} and {self.iterations} iterations make no sense",
                hint="Seconds and gap are not negative, iterations at least 1.",
            )


@dataclass(frozen=True, slots=True)
class PartitioningCost:
    """Eq. 9 and 10: the cost of sending, and the cost of the most loaded partition of each stream."""

    copies: float
    busiest: float

    @property
    def total(self) -> float:
        """The cost that is minimized."""
        return self.copies + self.busiest

    def to_json(self) -> Json:
        """Return the JSON form."""
        return {"copies": self.copies, "busiest": self.busiest, "total": self.total}


@dataclass(frozen=True, slots=True)
class Route:
    """The partition of each key group, shared by these inputs for these queries."""

    inputs: tuple[PartitionedInput, ...]
    queries: tuple[str, ...]
    partition_of: tuple[int, ...]

    def to_json(self) -> Json:
        """Return the JSON form."""
        return {
            "inputs": [str(input_) for input_ in self.inputs],
            "queries": list(self.queries),
            "partition_of": list(self.partition_of),
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rung on one set of connected streams: the cost that it reached and the bound that it proved."""

    rung: Rung
    streams: tuple[str, ...]
    cost: float
    bound: float

    def to_json(self) -> Json:
        """Return the JSON form."""
        return {
            "rung": self.rung.value,
            "streams": list(self.streams),
            "cost": self.cost,
            "bound": self.bound,
        }


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The chosen assignment, its cost and lower bound, and the alternatives."""

    routes: tuple[Route, ...]
    cost: PartitioningCost
    bound: float
    """A lower bound of the cost of any assignment."""
    unshared: PartitioningCost
    """The cost if each query sends its own copy, by hash."""
    alternatives: tuple[tuple[Rung, PartitioningCost], ...]
    attempts: tuple[Attempt, ...]
    moved: int
    """The number of key groups that change their partition, over all inputs with a current assignment."""

    @property
    def gap(self) -> float:
        """The proven gap: the optimum is lower than the cost by at most this fraction of the cost."""
        return relative_gap(self.cost.total, self.bound)

    @property
    def saved(self) -> float:
        """The saved fraction of the cost of unshared hashing; never negative."""
        return 1.0 - self.cost.total / self.unshared.total if self.unshared.total > 0 else 0.0

    def route_of(self, query: str, of: PartitionedInput) -> Route:
        """Return the route of an input for a query."""
        for route in self.routes:
            if of in route.inputs and query in route.queries:
                return route
        raise InvalidSetting(f'query "{query}" has no input "{of}"', hint="Name one of the partitioned queries.")

    def assignment(self) -> dict[PartitionedInput, tuple[int, ...]]:
        """Return the partition of each key group, by input; the first route of an input counts if it has several."""
        chosen: dict[PartitionedInput, tuple[int, ...]] = {}
        for route in self.routes:
            for input_ in route.inputs:
                chosen.setdefault(input_, route.partition_of)
        return chosen

    def to_json(self) -> Json:
        """Return the JSON form, with everything that the CLI and the dashboard show."""
        return {
            "routes": [route.to_json() for route in self.routes],
            "cost": self.cost.to_json(),
            "bound": self.bound,
            "gap": self.gap,
            "unshared": self.unshared.to_json(),
            "saved": self.saved,
            "alternatives": {rung.value: cost.to_json() for rung, cost in self.alternatives},
            "attempts": [attempt.to_json() for attempt in self.attempts],
            "moved": self.moved,
        }


def relative_gap(cost: float, bound: float) -> float:
    """Return how far a cost may be above the optimum, as a fraction of the cost."""
    return max(0.0, (cost - bound) / cost) if cost > 0 else 0.0
