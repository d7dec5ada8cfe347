"""AStream's templates (thesis, figures 4.7 and 4.8, and the complex queries of 4.4.7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from weft_bench.data import ATTRIBUTES
from weft_bench.workloads.aggregation import draw_slide
from weft_bench.workloads.joins import streams_of
from weft_bench.workloads.model import Workload
from weft_bench.workloads.predicates import EVERY, draw_predicate
from weft_bench.workloads.rows import keys_of
from weft_bench.workloads.say import QueryList
from weft_bench.workloads.shapes import (
    Aggregate,
    Function,
    Grouped,
    Output,
    Relation,
    Shape,
    Sliding,
    WindowJoin,
)

STREAMS = ("A", "B", "C", "D", "E", "F")


class Kind(StrEnum):
    """Which template."""

    JOIN = "join"
    AGGREGATION = "aggregation"
    COMPLEX = "complex"
    MIXED = "mixed"
    """The three others in turn."""


_TURNS = (Kind.JOIN, Kind.AGGREGATION, Kind.COMPLEX)
_RATES = {Kind.JOIN: 2_000, Kind.AGGREGATION: 400_000, Kind.COMPLEX: 2_000, Kind.MIXED: 2_000}
"""Rows per event-second and stream: joins of a thousand keys have results that grow with the square."""


@dataclass(frozen=True, slots=True)
class Templates:
    """By its number, a random query of a template."""

    kind: Kind
    seed: int
    longest: int
    ways: int
    observed: int

    def __call__(self, number: int) -> Shape:
        """The query with this number."""
        rng = np.random.default_rng((self.seed, number))
        observed = number < self.observed
        match _TURNS[number % len(_TURNS)] if self.kind is Kind.MIXED else self.kind:
            case Kind.JOIN:
                return self._join(rng, observed=observed)
            case Kind.AGGREGATION:
                return self._aggregation(rng, observed=observed)
            case Kind.COMPLEX:
                return self._complex(rng, observed=observed)
            case Kind.MIXED:
                raise AssertionError("turns are of templates")
            case _ as never:
                assert_never(never)

    def _window(self, rng: np.random.Generator, *, even: bool = False) -> Sliding:
        seconds = int(rng.integers(1, self.longest + 1))
        return Sliding(seconds, draw_slide(rng, seconds, even=even))

    def _join(self, rng: np.random.Generator, *, observed: bool) -> WindowJoin:
        selections = [draw_predicate(rng, EVERY, observed=observed).sql(alias) for alias in "ab"]
        fields = [Output(f"{alias}.f{field}", f"{alias}_f{field}") for alias in "ab" for field in range(ATTRIBUTES)]
        return WindowJoin(
            relations=_relations(2),
            conditions=("a.k = b.k", *selections),
            outputs=(Output("a.k", "k"), *fields),
            window=self._window(rng),
        )

    def _aggregation(self, rng: np.random.Generator, *, observed: bool) -> Grouped:
        return Grouped(
            relations=_relations(1),
            conditions=(draw_predicate(rng, EVERY, observed=observed).sql("a"),),
            keys=(Output("a.k", "k"),),
            aggregates=(Aggregate(Function.SUM, "a.f1", "total"),),
            window=self._window(rng),
            observed=observed,
        )

    def _complex(self, rng: np.random.Generator, *, observed: bool) -> Grouped:
        """Selections, a join of two to `ways` streams, an aggregation.

        Slides go into lengths without rest: Flink has no other windows over joins.
        """
        relations = _relations(int(rng.integers(2, self.ways + 1)))
        names = [each.alias for each in relations]
        selections = [draw_predicate(rng, EVERY, observed=observed).sql(alias) for alias in names]
        summed = names[int(rng.integers(len(names)))]
        return Grouped(
            relations=relations,
            conditions=(*(f"a.k = {alias}.k" for alias in names[1:]), *selections),
            keys=(Output("a.k", "k"),),
            aggregates=(
                Aggregate(Function.COUNT, "*", "n"),
                Aggregate(Function.SUM, f"{summed}.f{rng.integers(ATTRIBUTES)}", "total"),
            ),
            window=self._window(rng, even=True),
            observed=observed,
        )


def _relations(count: int) -> tuple[Relation, ...]:
    return tuple(Relation(name, name.lower()) for name in STREAMS[:count])


def astream(
    *,
    kind: str = "join",
    seed: int = 7,
    keys: int = 1_000,
    rate: int | None = None,
    longest: int = 5,
    ways: int = 3,
    skew: str = "turn",
    observed: int = 1,
) -> Workload:
    """Random queries of AStream's templates, `kind` join, aggregation, complex or mixed; `rate` is of each stream."""
    template = Kind(kind)
    if not 2 <= ways <= len(STREAMS):
        raise ValueError(f"a complex query joins 2 to {len(STREAMS)} streams, not {ways}")
    used = {Kind.JOIN: 2, Kind.AGGREGATION: 1, Kind.COMPLEX: ways, Kind.MIXED: ways}[template]
    return Workload(
        name="astream",
        title=f"AStream's {template} template, windows of 1 to {longest} s with slides (thesis 4.4, figures 4.7, 4.8)",
        streams=streams_of(STREAMS[:used], keys_of(skew, keys)),
        queries=QueryList(Templates(template, seed, longest, ways, observed)),
        rows_per_second=used * (_RATES[template] if rate is None else rate),
    )
