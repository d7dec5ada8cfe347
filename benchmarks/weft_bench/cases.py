"""What `make bench-quick` measures: the cases of both kinds of queries, for every system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from weft_bench.case import Case, Kind, System, Variant
from weft_bench.data import Load

AGGREGATE_LOAD = Load(rate=400_000, keys=1_000)
"""One stream whose key is the group."""
SHORT = 12
"""Event-seconds of the cases whose batches take longer: eight measured ones after the warm-up."""
_SPARK_JOIN_SECONDS = ((1, 10), (5, 3), (20, 2), (1 << 30, 1))
"""Event-seconds of input for plain Spark by the largest number of queries: about a minute or three on two cores."""


def weft_joins(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """weft by the number of queries; at some of them also its other ways to run."""
    for count in counts:
        yield Case(System.WEFT, count, 20 if count <= 100 else SHORT, load=load)
        if count in (1, 100):
            yield Case(System.WEFT, count, SHORT, variant=Variant.ROWS, load=load)
        if count in (1, 20, 100):
            yield Case(System.WEFT, count, 32, files=4, load=load)
        if count == 20:
            yield Case(System.WEFT, count, SHORT, variant=Variant.DELIVERED, load=load)


def spark_joins(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """Plain Structured Streaming; of small and large batches the better one counts, as for weft."""
    for count in counts:
        seconds = next(seconds for most, seconds in _SPARK_JOIN_SECONDS if count <= most)
        yield Case(System.SPARK, count, seconds, load=load)
        if count in (1, 20):
            yield Case(System.SPARK, count, 16 if count == 1 else 4, files=4, load=load)


def weft_aggregates(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """weft by the number of queries, with small and with large batches: long enough for the longest windows to fill."""
    for count in counts:
        yield Case(System.WEFT, count, 24, load=load, kind=Kind.AGGREGATES)
        yield Case(System.WEFT, count, 48 if count <= 100 else 32, files=4, load=load, kind=Kind.AGGREGATES)


def spark_aggregates(counts: Iterable[int], load: Load) -> Iterator[Case]:
    """The same for plain Structured Streaming; shorter where every query has to read everything once more."""
    for count in counts:
        yield Case(System.SPARK, count, 24 if count == 1 else 8, load=load, kind=Kind.AGGREGATES)
        yield Case(System.SPARK, count, 48 if count == 1 else 8, files=4, load=load, kind=Kind.AGGREGATES)


def trial_cases() -> tuple[Case, ...]:
    """A trial of every way to run, small enough for a test; the results of all of them are checked."""
    load, grouped = Load(rate=2_000, keys=500), Load(rate=2_000, keys=50)
    return (
        Case(System.WEFT, 20, 6, variant=Variant.DELIVERED, load=load),
        Case(System.SPARK, 2, 4, variant=Variant.CHECKED, load=load),
        Case(System.WEFT, 2, 8, files=4, variant=Variant.ROWS, load=load),
        Case(System.WEFT, 20, 14, load=grouped, kind=Kind.AGGREGATES),
        Case(System.SPARK, 3, 12, files=4, variant=Variant.CHECKED, load=grouped, kind=Kind.AGGREGATES),
    )


def alternate(*groups: Iterable[Case]) -> tuple[Case, ...]:
    """The groups' cases in turn, so that a slow minute of the machine does not hit one system alone."""
    return tuple(case for turn in zip_longest(*groups) for case in turn if case is not None)
