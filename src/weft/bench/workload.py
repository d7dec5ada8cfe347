"""The queries: window joins of both streams with one random range predicate on each side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.bench.data import ATTRIBUTES, DOMAIN, STREAMS

SEED = 7
LONGEST_WINDOW = 3


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


def _predicate(rng: np.random.Generator) -> Predicate:
    return Predicate(int(rng.integers(ATTRIBUTES)), bool(rng.integers(2)), int(rng.integers(DOMAIN)))
