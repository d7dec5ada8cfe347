"""What driver and system say to each other: one JSON object per line on the system's standard streams.

The driver sends an `Order` first, then `Create`, `Drop`, `Report` and `Stop`; the system answers with the rest. A line
that does not begin with `PREFIX` is noise (a logger's, a JVM's) and is left alone. Programs of systems that run in
another virtual environment do not import this module: they speak the same lines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

PREFIX = "@bench "


@dataclass(frozen=True, slots=True)
class StreamOrder:
    """A stream as a system finds it: a folder where Parquet files appear, whole, in the order of their names."""

    name: str
    folder: str
    columns: Mapping[str, str]
    """Types by name in the words of Spark SQL: timestamp, bigint, int, double, string, boolean."""
    time: str = "ts"


@dataclass(frozen=True, slots=True)
class QueryOrder:
    """A query in the words of the system that gets it."""

    name: str
    text: str
    observed: bool = False
    """Its rows are delivered to the driver's sink (`Delivered`); those of others go where it costs the system least."""
    newest: tuple[str, ...] = ()
    """Output columns with event times: the largest of a row is the event time of that row (definitions 1 and 3)."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a system is started with."""

    streams: tuple[StreamOrder, ...]
    scratch: str
    """A folder for whatever it writes; the driver removes it."""
    interval: float
    """Seconds between micro-batches, for systems that have them; 0: as fast as they come."""
    cores: int
    heap_gigabytes: int
    settings: Mapping[str, str] = field(default_factory=dict)
    lateness: float = 0.0
    """Event-seconds a row may come after a later one of its stream."""


@dataclass(frozen=True, slots=True)
class Create:
    """All of them or none; answered by `Live` with the same names, one or several times, or by `Refused`."""

    queries: tuple[QueryOrder, ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """Answered by `Gone` or `Refused`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Answered by `Figures`."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End in good order: the process ends with status 0."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Queries may be created now."""


@dataclass(frozen=True, slots=True)
class Live:
    """Rows that come from now on are seen by these queries; moments are seconds since 1970."""

    names: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Gone:
    """These queries give no more rows."""

    names: tuple[str, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that failed; the system goes on."""

    names: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True)
class Pulled:
    """How far a reader of the streams has come: what is behind it, is processed.

    A system that reads once for all its queries has one reader; one that reads for each query has as many.
    """

    reader: str
    files: Mapping[str, int]
    """How many files of each stream, in the order of their names, it has passed since the beginning."""
    began: float
    """When it began to read the last of them."""
    at: float
    """When it was done with them."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """Rows of an observed query that have reached the sink."""

    query: str
    at: float
    newest: tuple[tuple[int, float], ...]
    """Event time (microseconds since 1970, to ten milliseconds, rounded down) and how many rows have it."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What a system knows of itself by now; None where it cannot say."""

    bytes_shuffled: int | None = None
    state_bytes: int | None = None
    """State on disk, or in memory where the system keeps it there."""
    result_rows: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The system cannot go on."""

    error: str


Command = Order | Create | Drop | Report | Stop
Answer = Ready | Live | Gone | Refused | Pulled | Delivered | Figures | Failed
Message = Command | Answer

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__.lower(): kind
    for kind in (
        Order,
        Create,
        Drop,
        Report,
        Stop,
        Ready,
        Live,
        Gone,
        Refused,
        Pulled,
        Delivered,
        Figures,
        Failed,
    )
}


def to_line(message: Message) -> str:
    """A message as a line, without its end."""
    return PREFIX + json.dumps({"say": type(message).__name__.lower()} | asdict(message))


def from_line(line: str) -> Message | None:
    """The message on a line; None for noise. Raises ValueError for a message that is none."""
    if not line.startswith(PREFIX):
        return None
    value = json.loads(line.removeprefix(PREFIX))
    kind = _KINDS.get(value.pop("say", ""))
    if kind is None:
        raise ValueError(f"no such message: {line[:200]}")
    match kind.__name__:
        case "Order":
            value["streams"] = tuple(StreamOrder(**each) for each in value["streams"])
        case "Create":
            queries = (each | {"newest": tuple(each.get("newest", ()))} for each in value["queries"])
            value["queries"] = tuple(QueryOrder(**each) for each in queries)
        case "Delivered":
            value["newest"] = tuple((int(moment), count) for moment, count in value["newest"])
        case _:
            pass
    if "names" in value:
        value["names"] = tuple(value["names"])
    message: Message = kind(**value)
    return message
