"""A workload as a value: streams whose rows can be made again and again, and queries in the words of every system."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa


class Dialect(StrEnum):
    """In whose words a query is written."""

    WEFT = "weft"
    SPARK = "spark"
    FLINK = "flink"
    DUCKDB = "duckdb"


Columns = Callable[[np.random.Generator, "np.ndarray"], Mapping[str, pa.Array]]
"""From a source of randomness and the numbers of rows (0, 1, 2 … from the beginning of the stream) to all columns but
the event time. The same numbers from a source with the same seed give the same values."""


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream: its columns, the event time `ts` first, and its rows."""

    name: str
    columns: Mapping[str, str]
    """Types by name in the words of Spark SQL: timestamp, bigint, int, double, string, boolean."""
    make: Columns = field(compare=False)
    share: float = 1.0
    """Part of the workload's rows that are this stream's; shares add up to one."""


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """A query in all the words it can be said in; where a dialect is missing, `why_not` says why."""

    name: str
    texts: Mapping[Dialect, str]
    newest: tuple[str, ...]
    """Output columns with event times, the largest of which is the event time of a result row."""
    why_not: Mapping[Dialect, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams, and as many queries over them as are asked for."""

    name: str
    title: str
    """What it is and where it is from, for the report."""
    streams: tuple[StreamSpec, ...]
    queries: Callable[[int], tuple[QuerySpec, ...]] = field(compare=False)
    """The first queries of a longer list are those of a shorter one."""
    rows_per_second: int
    """Rows of all streams together in a second of event time: their density, whatever the rate they come at."""
    lateness: float = 0.0
    """Event-seconds a row may come after a later one of its stream."""
