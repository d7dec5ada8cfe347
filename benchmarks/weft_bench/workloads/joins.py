"""Window joins of two streams with random ranges: the queries of AStream's scenarios as this repository has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft_bench.data import STREAMS
from weft_bench.workloads.model import StreamSpec, Workload
from weft_bench.workloads.predicates import draw_predicate
from weft_bench.workloads.rows import KeyedRows, Keys, Uniform, keyed_columns, keys_of, twins
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import NearJoin, Output, Relation

RATE = 200_000
"""Rows per event-second and stream."""
KEYS = 100_000
SEED = 21
"""Its first query gives about as many results as the first one of `weft_bench.quick`: 0.4 for an input row."""
PARTNERS = RATE / KEYS
"""Rows of the other stream with a row's key, per event-second."""


@dataclass(frozen=True, slots=True)
class WindowJoins:
    """By its number, the join of A and B by key with a range on each side and a window of some length."""

    seed: int
    shortest: int
    longest: int
    observed: int

    def __call__(self, number: int) -> NearJoin:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, number))
        left, right = (draw_predicate(rng, observed=number < self.observed) for _ in STREAMS)
        return NearJoin(
            relations=tuple(Relation(name, name.lower()) for name in STREAMS),
            conditions=("a.k = b.k", left.sql("a"), right.sql("b")),
            outputs=(Output("a.k", "k"), Output("a.f0", "a_f0"), Output("b.f0", "b_f0")),
            seconds=int(rng.integers(self.shortest, self.longest + 1)),
        )


def streams_of(names: tuple[str, ...], keys: Keys) -> tuple[StreamSpec, ...]:
    """Streams with keyed rows, each with as many as the others and rows of its own."""
    share = 1 / len(names)
    return tuple(
        StreamSpec(name, keyed_columns(), KeyedRows(keys, salt=salt), share) for salt, name in enumerate(names)
    )


def sc1(
    *, seed: int = SEED, keys: int = KEYS, rate: int = RATE, shortest: int = 1, longest: int = 3, observed: int = 1
) -> Workload:
    """Window joins as `weft_bench.quick` has them; `rate` is of each stream."""
    return Workload(
        name="sc1",
        title=f"window joins of {shortest} to {longest} s with random ranges, {keys:,} keys (AStream's scenarios)",
        streams=streams_of(STREAMS, Uniform(keys)),
        queries=QueryList(WindowJoins(seed, shortest, longest, observed)),
        rows_per_second=2 * rate,
    )


def windows(
    *, seconds: int = 60, seed: int = SEED, keys: int | None = None, rate: int = RATE, observed: int = 1
) -> Workload:
    """The same with windows of one, large, length; as many keys as leave a row as many partners as in sc1."""
    keys = max(1, round(rate * seconds / (2 * PARTNERS))) if keys is None else keys
    return Workload(
        name="windows",
        title=f"window joins of {seconds} s with random ranges, {keys:,} keys (thesis 3.6.2.4)",
        streams=streams_of(STREAMS, Uniform(keys)),
        queries=QueryList(WindowJoins(seed, seconds, seconds, observed)),
        rows_per_second=2 * rate,
    )


def skew(
    *, skew: str = "zipf:0.8", seed: int = SEED, keys: int = KEYS, rate: int | None = None, observed: int = 1
) -> Workload:
    """The same over skewed keys: zipf:<exponent>, or one:<share of the rows that have one key>.

    Unless told otherwise, rows are as dense as leaves a row as many partners as in sc1, on average: with skew, results
    grow with the square of the hot keys' rows.
    """
    distribution = keys_of(skew, keys)
    rate = max(1, round(PARTNERS / twins(distribution))) if rate is None else rate
    return Workload(
        name="skew",
        title=f"window joins of 1 to 3 s with random ranges, {keys:,} keys distributed as {skew} (thesis 3.6.2.5)",
        streams=streams_of(STREAMS, distribution),
        queries=QueryList(WindowJoins(seed, 1, 3, observed)),
        rows_per_second=2 * rate,
    )
