"""What is measured and what comes out, as values that travel between the processes of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from weft_bench.data import STREAMS, Load


class Kind(StrEnum):
    """What the queries of a case do, and so over which streams."""

    JOINS = "joins"
    """Window joins of both streams, random predicates."""
    AGGREGATES = "aggregates"
    """Windowed aggregates over one stream by its key, random predicates and windows."""
    FAN_OUT = "fan-out"
    """One aggregate over a join of both streams with many more pairs than rows."""

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that are read."""
        return STREAMS[:1] if self is Kind.AGGREGATES else STREAMS


class System(StrEnum):
    """What runs the queries."""

    WEFT = "weft"
    SPARK = "spark"
    SPIKE = "spike"


class Variant(StrEnum):
    """How it is run: the plain way of the system, or another one that is measured beside it."""

    PLAIN = "plain"
    ROWS = "row path"
    """weft reads a streaming DataFrame instead of files."""
    DELIVERED = "delivered"
    """weft's results are read out by every query, batch by batch."""
    CHECKED = "checked"
    """Spark counts what it would have written, so that it can be compared; for trials, not for figures."""
    MATERIALIZED = "materialized"
    """weft joins only; the rows are read out batch by batch, and aggregated outside."""


@dataclass(frozen=True, slots=True)
class Case:
    """One system with some queries over the first `seconds` event-seconds, `files` per stream and batch."""

    system: System
    queries: int
    seconds: int
    files: int = 1
    variant: Variant = Variant.PLAIN
    load: Load = field(default_factory=Load)
    kind: Kind = Kind.JOINS

    @property
    def label(self) -> str:
        """Name of the system as it is run."""
        variant = "" if self.variant is Variant.PLAIN else f" {self.variant}"
        return f"{self.system}{variant}" + (f" {self.files} files" if self.files > 1 else "")

    @property
    def batch_rows(self) -> int:
        """Input rows of a whole batch, all streams together."""
        return len(self.kind.streams) * self.files * self.load.rate

    def to_json(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Case:
        """The inverse of `to_json`."""
        given = dict(value, system=System(value["system"]), variant=Variant(value["variant"]), kind=Kind(value["kind"]))
        return cls(**given | {"load": Load(**value["load"])})


@dataclass(frozen=True, slots=True)
class Digest:
    """A result reduced to figures that do not depend on the order of its rows."""

    rows: int = 0
    keys: int = 0
    """Sum of the keys; of an aggregate, of group · count."""
    values: int = 0
    """Sum of a.f0 + 1000 · b.f0; of an aggregate, of all it computes, each weighted by its group plus one."""
    distance: int = 0
    """Sum of a.ts − b.ts in microseconds; of an aggregate, of (seconds from the first event to the window) · count."""

    def plus(self, other: Digest) -> Digest:
        """Of both results together."""
        return Digest(
            self.rows + other.rows,
            self.keys + other.keys,
            self.values + other.values,
            self.distance + other.distance,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a measured case says: medians over its warm batches."""

    rows_per_second: float = 0.0
    """Input rows per second at which all queries together progress."""
    batch_seconds: float = 0.0
    batches: int = 0
    """How many batches the figures stand on."""
    wall_rows_per_second: float = 0.0
    """The same by the clock, first warm batch to last, as a cross-check of the median."""
    slowest_rows_per_second: float | None = None
    """Where queries run on their own: input rows that every one of them has passed, per second."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """Results of some queries by their number."""
    note: str = ""
    rss: int = 0
    """Peak of the resident sets of all processes, in bytes; pages they share count once for each."""
    pss: int = 0
    """Peak memory of the whole process tree, in bytes, shared pages counted once."""
    span: tuple[float, float] = (0.0, 0.0)
    """When its measured batches began and ended, in seconds since 1970."""
    memory: tuple[tuple[float, int], ...] = ()
    """Where it is asked for: moments (seconds since 1970) and the memory of the process tree as in `pss`."""

    def with_memory(self, *, rss: int, pss: int, samples: Sequence[tuple[float, int]] = ()) -> Outcome:
        """The same with its peak memory, and with its course."""
        return replace(self, rss=rss, pss=pss, memory=tuple(samples))

    def to_json(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Outcome:
        """The inverse of `to_json`."""
        digests = {int(number): Digest(**digest) for number, digest in value["digests"].items()}
        memory = tuple((at, size) for at, size in value["memory"])
        return cls(**dict(value, digests=digests, span=tuple(value["span"]), memory=memory))
