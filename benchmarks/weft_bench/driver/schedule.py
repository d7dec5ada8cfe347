"""When queries are to be created and dropped: pure functions to requests in the order they are due."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from weft_bench.driver.messages import QueryOrder


class Action(StrEnum):
    """What a request is for."""

    CREATE = "create"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Request:
    """A user's wish, due so many seconds after the beginning."""

    due: float
    action: Action
    query: QueryOrder


@dataclass(frozen=True, slots=True)
class Waves:
    """SC2: `number` queries every `every` seconds, each of which lives for `living` seconds."""

    number: int
    every: float
    living: float

    def __post_init__(self) -> None:
        if self.number < 1 or self.every <= 0 or self.living <= 0:
            raise ValueError(f"waves need at least one query and periods above 0, not {self}")


def one_by_one(queries: Sequence[QueryOrder], per_second: float) -> tuple[Request, ...]:
    """SC1: so many creates per second until all queries are there, at even distances."""
    return tuple(Request(number / per_second, Action.CREATE, query) for number, query in enumerate(queries))


def all_at_once(queries: Sequence[QueryOrder]) -> tuple[Request, ...]:
    """All creates are due at the beginning."""
    return tuple(Request(0.0, Action.CREATE, query) for query in queries)


def in_waves(queries: Sequence[QueryOrder], waves: Waves) -> Iterator[Request]:
    """SC2 without end, queries in turn under names of their own; a wave's requests are due together, drops first."""
    drops: list[tuple[float, int, QueryOrder]] = []
    number = 0
    wave = 0
    while True:
        due = wave * waves.every
        while drops and drops[0][0] <= due:
            at, _, query = heapq.heappop(drops)
            yield Request(at, Action.DROP, query)
        for _ in range(waves.number):
            query = queries[number % len(queries)]
            named = replace(query, name=f"{query.name}_{number}", observed=False)
            yield Request(due, Action.CREATE, named)
            heapq.heappush(drops, (due + waves.living, number, named))
            number += 1
        wave += 1
