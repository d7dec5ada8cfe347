"""The queries: window joins and window aggregates with random range predicates, and an aggregate over a join."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from weft_bench.data import ATTRIBUTES, DOMAIN, STREAMS

SEED = 7
LONGEST_WINDOW = 3
LONGEST_AGGREGATE = 10
FAN_OUT_WINDOW = 1
"""Seconds of the tumbling windows of the join with the large fan-out."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """`f<attribute>` lies above, or below, `value`."""

    attribute: int
    above: bool
    value: int

    def sql(self, prefix: str = "") -> str:
        """As a condition, the column behind `prefix`."""
        return f"{prefix}f{self.attribute} {'>' if self.above else '<'} {self.value}"


@dataclass(frozen=True, slots=True)
class WindowJoin:
    """Rows of A and B with equal keys, less than `seconds` apart, each side meeting its predicate."""

    left: Predicate
    right: Predicate
    seconds: int

    def weft_sql(self) -> str:
        """As weft takes it."""
        window = f"[RANGE {self.seconds} SECONDS]"
        return (
            "SELECT a.ts AS a_ts, b.ts AS b_ts, a.k AS k, a.f0 AS a_f0, b.f0 AS b_f0 "
            f"FROM {STREAMS[0]} {window} AS a JOIN {STREAMS[1]} {window} AS b ON a.k = b.k "
            f"WHERE {self.left.sql('a.')} AND {self.right.sql('b.')}"
        )

    def spark_condition(self) -> str:
        """The join condition over columns a_ts, a_k, b_ts, b_k: the form Spark can bound its state by."""
        reach = f"INTERVAL {self.seconds} SECONDS"
        return f"a_k = b_k AND b_ts > a_ts - {reach} AND b_ts < a_ts + {reach}"


def window_joins(count: int) -> tuple[WindowJoin, ...]:
    """`count` random queries, the same ones in every run."""
    rng = np.random.default_rng(SEED)
    sides = [[_predicate(rng) for _ in range(count)] for _ in STREAMS]
    windows = rng.integers(1, LONGEST_WINDOW + 1, count)
    return tuple(WindowJoin(*each) for each in zip(*sides, (int(window) for window in windows), strict=True))


class Extra(StrEnum):
    """What a window aggregate computes beside a count and a sum."""

    NOTHING = ""
    MIN = "MIN"
    MAX = "MAX"
    AVG = "AVG"


@dataclass(frozen=True, slots=True)
class WindowAggregate:
    """Count and sum of the rows of A that meet a predicate, by key and by window of `seconds` every `slide` seconds."""

    predicate: Predicate
    seconds: int
    slide: int
    summed: int
    """The attribute of the sum."""
    extra: Extra = Extra.NOTHING
    extra_of: int = 0

    def outputs_sql(self) -> str:
        """The aggregates n, total and, if there is something extra, other: the same text for every system."""
        other = f", {self.extra}(f{self.extra_of}) AS other" if self.extra else ""
        return f"COUNT(*) AS n, SUM(f{self.summed}) AS total{other}"

    def weft_sql(self) -> str:
        """As weft takes it."""
        return (
            f"SELECT k, window_start AS start, {self.outputs_sql()} "
            f"FROM {STREAMS[0]} [RANGE {self.seconds} SECONDS SLIDE {self.slide} SECONDS] "
            f"WHERE {self.predicate.sql()} GROUP BY k"
        )

    def digest_sql(self) -> tuple[str, str, str, str]:
        """The figures of a digest over rows (k, second, n, total, other), for DuckDB and Spark alike."""
        other = " + CAST(floor(other * 1000 + 0.5) AS BIGINT)" if self.extra else ""
        return "count(*)", "sum(k * n)", f"sum((k + 1) * (n + total{other}))", "sum(second * n)"


def window_aggregates(count: int) -> tuple[WindowAggregate, ...]:
    """`count` random queries: the first ones of a longer list are those of a shorter one."""
    rng = np.random.default_rng(SEED)
    return tuple(_aggregate(rng) for _ in range(count))


def _aggregate(rng: np.random.Generator) -> WindowAggregate:
    predicate, seconds = _predicate(rng), int(rng.integers(1, LONGEST_AGGREGATE + 1))
    return WindowAggregate(
        predicate,
        seconds,
        slide=int(rng.integers(1, seconds + 1)),
        summed=int(rng.integers(ATTRIBUTES)),
        extra=list(Extra)[int(rng.integers(len(Extra)))],
        extra_of=int(rng.integers(ATTRIBUTES)),
    )


_PAIRS = (
    f"FROM {STREAMS[0]} [TUMBLE {FAN_OUT_WINDOW} SECOND] AS a JOIN {STREAMS[1]} [TUMBLE {FAN_OUT_WINDOW} SECOND] AS b "
    "ON a.k = b.k"
)
AGGREGATED_PAIRS = (
    "SELECT a.f0 AS g, window_start AS start, COUNT(*) AS n, SUM(a.f1) AS total, SUM(a.f1 * b.f2) AS product "
    f"{_PAIRS} GROUP BY a.f0"
)
"""Aggregate over a join: weft computes it without building the pairs."""
PLAIN_PAIRS = f"SELECT a.f0 AS g, window_start AS start, a.f1 AS x, b.f2 AS y {_PAIRS}"
"""The same join without aggregation: every pair is a result row."""
GROUPED_PAIRS = "SELECT g, start, count(*) AS n, sum(x) AS total, sum(x * y) AS product FROM pairs GROUP BY g, start"
"""What is left to do with the rows of the latter, in DuckDB's words."""


def _predicate(rng: np.random.Generator) -> Predicate:
    return Predicate(int(rng.integers(ATTRIBUTES)), bool(rng.integers(2)), int(rng.integers(DOMAIN)))
