"""What shared partitioning is asked and what it answers (SASPAR II), as values.

A stream is sent to partitions by the key group of an attribute. Queries that use different attributes of one stream
need a row in several places; a row whose places fall together is sent once. Choosing key group → partition for all of
them at once saves copies, as long as no partition is overloaded.
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
class Input:
    """A stream and the attribute by which it is partitioned."""

    stream: str
    attribute: str

    def __str__(self) -> str:
        return f"{self.stream}.{self.attribute}"


@dataclass(frozen=True, slots=True)
class PartitionedQuery:
    """A query's operators; the inputs of one operator (both sides of a join) have to be partitioned alike (eq. 3)."""

    name: str
    operators: tuple[tuple[Input, ...], ...]
    fraction: float = 1.0
    """How much of its streams passes the query's selection."""

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Every input once, in order."""
        return tuple(sorted({each for operator in self.operators for each in operator}))


@dataclass(frozen=True, slots=True)
class Place:
    """A key group of an attribute, and how many of the shared rows it can offer there."""

    attribute: str
    key_group: int
    rows: float


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows of a stream that lie in all of these places: sent once to every partition that has at least one of them.

    Places offer different numbers of rows only with the coefficients of eq. 4; then the largest at a partition counts.
    """

    stream: str
    places: tuple[Place, ...]


class Grouping(StrEnum):
    """Which queries have to be placed alike."""

    PER_ATTRIBUTE = "per attribute"
    """All that use the same attribute of a stream: one assignment per (stream, attribute)."""
    PER_QUERY = "per query"
    """None: eq. 1 to the letter. A hot key group can be divided by query."""


@dataclass(frozen=True, slots=True)
class PartitioningWorkload:
    """All that a choice depends on. Loads may be missing, zero, infinite or not a number."""

    queries: tuple[PartitionedQuery, ...]
    partitions: int
    key_groups: int
    loads: Mapping[Input, tuple[float, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Rows per key group; an input without is taken to be as heavy as the others of its stream."""
    shared: tuple[SharedRows, ...] = ()
    """What is known about rows that lie in several places; nothing known means nothing is saved by it."""
    latency: tuple[float, ...] = ()
    """What sending a row to each partition costs (LatNet, LatMem); empty: 1 everywhere."""
    processing: float = 1.0
    """What a row on the most loaded partition costs (LatProc)."""
    current: Mapping[Input, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The assignment in effect: key group → partition."""
    grouping: Grouping = Grouping.PER_ATTRIBUTE

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
    """How an assignment was found; algorithm 1 climbs down from the exact one."""

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
    """How long and how exactly to look; the same values give the same answer unless the solver ran out of time."""

    seconds: float = 4.0
    gap: float = 0.01
    """A proven distance from the optimum that is good enough; doubled with every iteration (alg. 1, line 7)."""
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
    """Eq. 9 and 10: what sending costs, and what the most loaded partition of each stream costs."""

    copies: float
    busiest: float

    @property
    def total(self) -> float:
        """What is minimized."""
        return self.copies + self.busiest

    def to_json(self) -> Json:
        """Plain values."""
        return {"copies": self.copies, "busiest": self.busiest, "total": self.total}


@dataclass(frozen=True, slots=True)
class Route:
    """Inputs that are placed alike, for these queries: key group → partition."""

    inputs: tuple[Input, ...]
    queries: tuple[str, ...]
    partition_of: tuple[int, ...]

    def to_json(self) -> Json:
        """Plain values."""
        return {
            "inputs": [str(each) for each in self.inputs],
            "queries": list(self.queries),
            "partition_of": list(self.partition_of),
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rung on one set of connected streams: what it found and what it proved."""

    rung: Rung
    streams: tuple[str, ...]
    cost: float
    bound: float

    def to_json(self) -> Json:
        """Plain values."""
        return {
            "rung": self.rung.value,
            "streams": list(self.streams),
            "cost": self.cost,
            "bound": self.bound,
        }


@dataclass(frozen=True, slots=True)
class Partitioning:
    """The chosen assignment, what it costs, what is proven about it and what else was possible."""

    routes: tuple[Route, ...]
    cost: PartitioningCost
    bound: float
    """No assignment costs less."""
    unshared: PartitioningCost
    """Each query sends its own copy, by hash."""
    alternatives: tuple[tuple[Rung, PartitioningCost], ...]
    attempts: tuple[Attempt, ...]
    moved: int
    """Key groups that are elsewhere than in the current assignment, over all inputs that have one."""

    @property
    def gap(self) -> float:
        """Proven: by at most this fraction of the cost could the optimum be lower."""
        return relative_gap(self.cost.total, self.bound)

    @property
    def saved(self) -> float:
        """The fraction of unshared hashing's cost that is saved; never negative."""
        return 1.0 - self.cost.total / self.unshared.total if self.unshared.total > 0 else 0.0

    def route_of(self, query: str, of: Input) -> Route:
        """Where the rows of an input go for a query."""
        for route in self.routes:
            if of in route.inputs and query in route.queries:
                return route
        raise InvalidSetting(f'query "{query}" has no input "{of}"', hint="Name one of the partitioned queries.")

    def assignment(self) -> dict[Input, tuple[int, ...]]:
        """Key group → partition per input, if queries are grouped per attribute; else of each input's first route."""
        chosen: dict[Input, tuple[int, ...]] = {}
        for route in self.routes:
            for each in route.inputs:
                chosen.setdefault(each, route.partition_of)
        return chosen

    def to_json(self) -> Json:
        """Everything the CLI and the dashboard show."""
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
    """How far a cost may be above the optimum, as a fraction of the cost."""
    return max(0.0, (cost - bound) / cost) if cost > 0 else 0.0
