"""Window aggregates over one stream: count, sum and perhaps more by key, with random ranges and sliding windows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft_bench.data import ATTRIBUTES
from weft_bench.workload import LONGEST_AGGREGATE
from weft_bench.workloads.joins import streams_of
from weft_bench.workloads.model import Workload
from weft_bench.workloads.predicates import draw_predicate
from weft_bench.workloads.rows import keys_of
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import Aggregate, Function, Grouped, Output, Relation, Sliding

_EXTRA = (None, Function.MIN, Function.MAX, Function.AVG)


@dataclass(frozen=True, slots=True)
class WindowAggregates:
    """By its number, the aggregate over A of the rows in a range, by key and window."""

    seed: int
    shortest: int
    longest: int
    even: bool
    observed: int

    def __call__(self, number: int) -> Grouped:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, number))
        observed = number < self.observed
        selection = draw_predicate(rng, observed=observed)
        seconds = int(rng.integers(self.shortest, self.longest + 1))
        aggregates = [
            Aggregate(Function.COUNT, "*", "n"),
            Aggregate(Function.SUM, f"a.f{rng.integers(ATTRIBUTES)}", "total"),
        ]
        extra = _EXTRA[int(rng.integers(len(_EXTRA)))]
        if extra is not None:
            aggregates.append(Aggregate(extra, f"a.f{rng.integers(ATTRIBUTES)}", "other"))
        return Grouped(
            relations=(Relation("A", "a"),),
            conditions=(selection.sql("a"),),
            keys=(Output("a.k", "k"),),
            aggregates=tuple(aggregates),
            window=Sliding(seconds, draw_slide(rng, seconds, even=self.even)),
            observed=observed,
        )


def draw_slide(rng: np.random.Generator, seconds: int, *, even: bool) -> int:
    """A slide up to a window's length; an even one goes into the length without rest."""
    slides = [slide for slide in range(1, seconds + 1) if not even or seconds % slide == 0]
    return slides[int(rng.integers(len(slides)))]


def aggregation(
    *,
    seed: int = 7,
    keys: int = 1_000,
    rate: int = 400_000,
    shortest: int = 1,
    longest: int = LONGEST_AGGREGATE,
    even: bool = False,
    skew: str = "uniform",
    observed: int = 1,
) -> Workload:
    """Window aggregates as `weft_bench.quick` has them, over keys distributed as `skew` says.

    `even` slides suit Flink's newer window functions; with others it is asked in its older form.
    """
    return Workload(
        name="aggregation",
        title=f"window aggregates by key, {shortest} to {longest} s with slides, {keys:,} keys (AStream's scenarios)",
        streams=streams_of(("A",), keys_of(skew, keys)),
        queries=QueryList(WindowAggregates(seed, shortest, longest, even, observed)),
        rows_per_second=rate,
    )
